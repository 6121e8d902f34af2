"""Python tracebacks in the lines of one process: a reader that is fed line by line and keeps what is still open.

A traceback is open in one of two stages: `frames` (its header or a frame was seen) and `message` (its last line was
seen and what follows may go on with it). Several are open at once only where processes without a prefix wrote to one
file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from trainwreck.diagnosis import Frame, Line
from trainwreck.tracebacks import native
from trainwreck.tracebacks.draft import Draft, Link
from trainwreck.tracebacks.shapes import (
    CALL_SITE,
    GROUP_RULE,
    JAVA_AT,
    LEAD,
    REPEATED,
    Head,
    chain_of,
    frame_of,
    head_of,
    header_at,
    hot,
    indent_of,
    is_log_line,
    is_marker,
    is_progress_bar,
    is_prose,
    notebook_frame_of,
    opens_stack,
    quotes_stack,
    spoken_head_of,
)

__all__ = ["read"]

Stream = Sequence[tuple[int, str]]

_DIGITS = str.maketrans("123456789", "000000000")
_MAX_OPEN = 16
_MAX_GAP = 25
"""Foreign lines after which a traceback with a header is given up."""
_MAX_GAP_HEADLESS = 6
_MAX_LINES = 400
_NEAR = 6
"""Lines between a closed record and a chain separator that still refers to it."""

_WRAPS = re.compile(
    r"Caught \w{1,80} in |terminated with the following error|\bray::|[Ff]ollowing (?:error|exception)"
    r"|Original Traceback"
    r"|\braised:?\s*$|[Rr]emote [Tt]raceback|FAILED\s*$|\bin user code:|_worker\b.{0,80}traceback|while calling o\d+"
)
_NOTEBOOK_HEADER = re.compile(r"([A-Za-z_][\w.]{0,200})\s{2,200}$")
_RAY_STACK = re.compile(r"ray::[^\s(]{1,200}\(\) \(")
_PYTEST_HEAD = re.compile(r"E\s{2,20}(\S.*)")
_PYTEST_AT = re.compile(r"(\S{1,400}\.py):(\d{1,9}): (?:in )?(\w{0,80})\s*$")
_NCCL = re.compile(r"nccl[A-Z]\w{1,40}: ")
_JAVA_HEAD = re.compile(
    r"\s*(?:Caused by: |Exception in thread \"[^\"]{1,80}\" |: )"
    r"((?:[a-z]\w{0,60}\.){1,12}[A-Z][\w$]{0,120})(?:: (.*))?$"
)
_JAVA_MORE = re.compile(r"\s*\.\.\. \d{1,6} (?:more|common frames omitted)|\s*Suppressed: ")
_RULE = re.compile(r"[=]{10,}\s*$")
_JAX_STAGES = ("SimplifiedTraceback", "UnfilteredStackTrace", "JaxStackTraceBeforeTransformation")
_JAX_NOTES = ("The stack trace below excludes JAX", "The preceding", "For simplicity, JAX has removed")
_QUOTES = ('"""', "'''")


@dataclass(slots=True, eq=False)
class _Block:
    """A traceback that is still open."""

    draft: Draft
    stage: Literal["frames", "message"]
    style: Literal["plain", "notebook", "boxed", "pytest"] = "plain"
    header: bool = False
    indent: int = 0
    """Column of its frames, or of its last line once that was seen."""
    frame_at: int = -1
    """Index of the line of its last frame."""
    awaits_code: bool = False
    has_code: bool = False
    gap: int = 0
    blanks: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """Every line taken, for telling a second copy of the same traceback apart."""
    after: Draft | None = None
    """A record without frames right above: the frames may be its own, printed late."""
    known_type: str = ""
    stack_indent: int = -1
    """Inside a message: column of the frames of a stack quoted in it (TensorFlow's definition of a node)."""
    rules: int = 0
    part: str = ""
    stamped: bool = False
    level: str | None = None


def read(stream: Stream, lines: Sequence[Line]) -> list[Draft]:
    """Return the records in one process's lines, given as (index into `lines`, text), in the order they end."""
    return _Reader(stream, lines).run()


class _Reader:
    def __init__(self, stream: Stream, lines: Sequence[Line]) -> None:
        self.stream = stream
        self.lines = lines
        self.open: list[_Block] = []
        self.last: _Block | None = None
        self.done: list[Draft] = []
        self.taken: set[int] = set()
        self.pending: list[tuple[Link, Draft, int]] = []
        """Chain separators whose second traceback has not begun: (link, first record, index of the separator)."""
        self.recent: tuple[int, Draft] | None = None
        """Position and draft of the record closed last."""
        self.muted = -1
        """Column of the frames of a stack that is nobody's exception, while inside one."""
        self.quoting = False
        """Inside the quotation marks of a remote traceback."""
        self.bars = False
        self.groups: list[tuple[int, Draft]] = []
        self.member_of: Draft | None = None
        self.shape = ""
        """Junk that stands before every line of the open tracebacks, digits made equal."""
        self.position = 0

    def run(self) -> list[Draft]:
        for position, (index, text) in enumerate(self.stream):
            if not self.open and not self.bars and self.muted < 0 and not hot(text) and not self.pending:
                continue
            if position in self.taken:
                continue
            self.position = position
            if not text or text.isspace():
                self._blank(index)
            else:
                self._feed(index, text)
        for block in list(self.open):
            self._close(block, at_end=True)
        return self.done

    # One line ---------------------------------------------------------------------------------------------------------

    def _feed(self, index: int, text: str) -> None:
        text = self._bare(index, text)
        if not text or text.isspace():
            return
        if self._native(text):
            return
        at = header_at(text)
        if at >= 0:
            self._header(index, text, at)
            return
        if link := chain_of(text):
            self._separator(index, link)
            return
        if self.muted >= 0 and self._muted_line(index, text):
            return
        if found := frame_of(text):
            self._frame(index, text, *found)
            return
        if opens_stack(text):
            self._stack_only(index, text)
            return
        if _RAY_STACK.match(text) and not (self.open and self.open[-1].stage == "frames"):
            self._start(index, text)
            return
        if LEAD.match(text):
            self._end_messages()
            return
        block = self._pick(text)
        if block is None:
            self._idle(index, text)
        elif block.stage == "frames":
            self._in_frames(block, index, text)
        else:
            self._in_message(block, index, text)

    def _blank(self, index: int) -> None:
        self.muted = -1 if self.muted >= 0 and not self.open else self.muted
        for block in self.open:
            block.blanks.append(index)
            if len(block.blanks) > 4 and block.stage == "message":
                self._close(block)
                return

    def _bare(self, index: int, text: str) -> str:
        """Take away what still stands before a line: bars of exception groups, sides of boxes, a prefix that stayed."""
        stripped = text.lstrip()
        if stripped[0] == "│":
            text = stripped.rstrip().strip("│").rstrip()
            return text.removeprefix(" ")
        if stripped[0] in "+|":
            if rule := GROUP_RULE.match(text):
                self._group_rule(index, len(text) - len(stripped), rule[1] is not None, rule[2] is not None)
                return ""
            if self.bars and stripped[0] == "|":
                return stripped[1:].removeprefix(" ")
            if stripped.startswith("+ Exception Group Traceback"):
                self.bars = True
                return stripped[2:]
            if stripped[0] == "|" and (self._boxed() or self._barred(stripped[1:])):
                return stripped[1:].rstrip().removesuffix("|").rstrip().removeprefix(" ")
        elif self.bars:
            self.bars = False
            self.groups.clear()
            self.member_of = None
            self._end_messages()
        if self.shape and text[: len(self.shape)].translate(_DIGITS) == self.shape:
            return text[len(self.shape) :]
        return text

    def _boxed(self) -> bool:
        return any(block.style == "boxed" for block in self.open)

    @staticmethod
    def _barred(text: str) -> bool:
        if header_at(text) >= 0 or frame_of(text):
            return True
        head = head_of(text)
        return head is not None and head.strength == "strong"

    def _native(self, text: str) -> bool:
        if not native.opens(text):
            return False
        if any(block.stage == "message" for block in self.open) and (
            text.startswith("Exception raised from ") or text.lstrip().startswith("frame #")
        ):
            # The C++ stack below a Python message: consumed here so that it does not become a record of its own.
            stack = native.read(self.stream, self.position, self.taken)
            block = next(block for block in reversed(self.open) if block.stage == "message")
            block.draft.members += stack.members
            return True
        self._end_messages()
        draft = native.read(self.stream, self.position, self.taken)
        self._done(draft)
        return True

    # Openings ---------------------------------------------------------------------------------------------------------

    def _header(self, index: int, text: str, at: int) -> None:
        before = text[:at]
        block: _Block
        if before.lstrip().startswith(("╭", "+-")):
            block = self._start(index, text)
            block.style = "boxed"
            return
        notebook = _NOTEBOOK_HEADER.match(before.lstrip())
        if notebook:
            block = self._start(index, text)
            block.style = "notebook"
            block.known_type = notebook[1]
            block.draft.at = index
            return
        if (outer := head_of(before)) and outer.strength == "strong" and before.rstrip().endswith(":"):
            self._quoted_header(index, text, outer)
            return
        block = self._start(index, text, original="riginal" in before[-12:])
        block.indent = indent_of(text) if not before.strip() else 0
        if before.strip() and not before.rstrip().endswith(("riginal", "Group", "raceback :")):
            self.shape = before.translate(_DIGITS)

    def _quoted_header(self, index: int, text: str, outer: Head) -> None:
        """Read `ValueError: Traceback (most recent call last):`, a worker's traceback as another one's message."""
        block = self._pick(text)
        if block is not None and block.stage == "frames" and block.draft.frames:
            self._name(block, index, text, outer)
        else:
            block = self._alone(index, text, outer)
        inner = Draft(members=[index], has_header=True)
        block.draft.wrap(inner)
        self._end_messages()
        self._open(_Block(inner, "frames", header=True, lines=[text]))

    def _start(self, index: int, text: str, original: bool = False) -> _Block:
        """Open a traceback at its header and chain it to what it belongs to."""
        draft = Draft(members=[index], has_header=True)
        block = _Block(draft, "frames", header=True, lines=[text])
        outer = self._speaking()
        if self.pending:
            link, first, separator = self.pending.pop(0)
            draft.members.insert(0, separator)
            if _is_jax_stage(first):
                self._absorb(first, draft)
            else:
                draft.follow(link, first)
        elif self.member_of is not None:
            draft.follow("group", self.member_of)
            self.member_of = None
        elif outer is not None and _is_remote_wrapper(outer.draft):
            self._leave(outer)
            self._absorb(outer.draft, draft)
            self.quoting = True
        elif outer is not None and (original or _expects_inner(outer)):
            outer.draft.wrap(draft)
        elif self.position and LEAD.match(self.stream[self.position - 1][1]):
            draft.members.insert(0, self.stream[self.position - 1][0])
        self._end_messages()
        self._open(block)
        return block

    def _open(self, block: _Block) -> None:
        if len(self.open) >= _MAX_OPEN:
            self._close(self.open[0])
        self.open.append(block)
        self.last = block
        self.muted = -1

    def _frame(self, index: int, text: str, frame: Frame, at: int) -> None:
        before = text[:at]
        block = self._pick(text)
        if block is not None and block.stage == "message":
            if block.stack_indent >= 0:
                block.stack_indent = at
                block.draft.members.append(index)
                return
            waiting = [other for other in self.open if other.stage == "frames"]
            block = waiting[0] if waiting else self._headless(block)
        elif block is None:
            block = self._headless(None)
        if before.strip():
            self.shape = before.rstrip().translate(_DIGITS)
        block.indent = indent_of(text) if not before.strip() else 0
        self._take(block, index, text)
        block.draft.frames.append(frame)
        block.frame_at = index
        block.awaits_code = True

    def _headless(self, above: _Block | None) -> _Block:
        """Open a traceback whose header is missing, below the record `above`."""
        draft = Draft()
        block = _Block(draft, "frames")
        if above is not None:
            if _expects_inner(above):
                above.draft.wrap(draft)
            elif not above.draft.frames and not above.header and above.draft.kind == "python":
                block.after = above.draft
        self._end_messages()
        self._open(block)
        return block

    def _stack_only(self, index: int, text: str) -> None:
        block = self._speaking()
        if block is not None and quotes_stack(text):
            block.stack_indent = indent_of(text) + 1
            self._say(block, index, text)
            return
        if block is None and (waiting := [other for other in self.open if other.stage == "frames"]):
            waiting[-1].gap += 1
        self.muted = indent_of(text)

    def _muted_line(self, index: int, text: str) -> bool:
        """Step over a line of a stack that is nobody's exception; false at its end."""
        if frame_of(text) or indent_of(text) > self.muted or REPEATED.match(text):
            return True
        self.muted = -1
        return False

    # Lines of an open traceback ---------------------------------------------------------------------------------------

    def _pick(self, text: str) -> _Block | None:
        """Return the open traceback that a line goes to: one that lags behind a copy of itself, else the last fed."""
        if len(self.open) < 2:
            return self.open[0] if self.open else None
        best: _Block | None = None
        for block in self.open:
            have = len(block.lines)
            if best is not None and have <= len(best.lines):
                continue
            for other in self.open:
                if other is not block and len(other.lines) > have and other.lines[have] == text:
                    best = block
                    break
        if best is None:
            best = self.last if self.last in self.open else self.open[-1]
        return best

    def _take(self, block: _Block, index: int, text: str) -> None:
        block.blanks.clear()
        block.gap = 0
        block.draft.members.append(index)
        block.lines.append(text)
        self.last = block

    def _in_frames(self, block: _Block, index: int, text: str) -> None:
        if block.style in ("notebook", "boxed"):
            self._in_notebook(block, index, text)
            return
        indent = indent_of(text)
        if REPEATED.match(text) or is_marker(text):
            self._take(block, index, text)
            return
        head = head_of(text)
        if head and self._is_last_line(block, head, text, indent):
            self._name(block, index, text, head)
            return
        if block.awaits_code and (indent > block.indent or block.indent == 0):
            self._take(block, index, text)
            block.awaits_code = False
            block.has_code = True
            if block.draft.frames:
                block.draft.frames[-1] = replace(block.draft.frames[-1], code=text.strip())
            return
        if block.draft.frames and indent > block.indent and indent >= 4:
            self._take(block, index, text)
            return
        if block.draft.frames and (spoken := spoken_head_of(text, "ERROR")) and is_log_line(text):
            # A progress bar without a line end stands before the last line.
            self._name(block, index, text, spoken)
            return
        if (match := _PYTEST_HEAD.match(text)) and (head := head_of(match[1])):
            self._name(block, index, text, head)
            block.style = "pytest"
            return
        for other in list(self.open):
            if other.stage == "frames":
                other.gap += 1
                if other.gap > (_MAX_GAP if other.header else _MAX_GAP_HEADLESS):
                    self._close(other)

    def _is_last_line(self, block: _Block, head: Head, text: str, indent: int) -> bool:
        if not block.draft.frames and not (block.header and head.strength == "strong"):
            return False
        if block.indent == 0:  # indentation was lost: a code line may look like anything but a strong head
            return head.strength == "strong" or not block.awaits_code or (not block.has_code and "." in head.type)
        if head.strength == "weak":
            return indent < block.indent and not is_log_line(text)
        return indent <= block.indent or not block.draft.frames

    def _in_notebook(self, block: _Block, index: int, text: str) -> None:
        frames = block.draft.frames
        bare = text.strip()
        if block.style == "boxed" and bare[0] in "╰+" and bare[-1] in "╯+":
            self._take(block, index, text)
            return
        if block.style == "boxed" and block.part:
            text, block.part = block.part + bare, ""
        found = frame_of(text)
        frame = found[0] if found else notebook_frame_of(text)
        if frame:
            self._take(block, index, text)
            frames.append(frame)
            block.frame_at = index
            return
        if site := CALL_SITE.match(text):
            self._take(block, index, text)
            if frames:
                frames[-1] = replace(frames[-1], line=frames[-1].line or int(site[1]), code=site[2].strip() or None)
            return
        head = head_of(text)
        known = head is not None and (head.strength == "strong" or head.type.endswith(block.known_type or "\n"))
        if head and known and not text[0].isspace():
            self._name(block, index, text, head)
            block.style = "plain"
            return
        if len(block.lines) > 20 * _MAX_LINES:
            self._close(block)
            return
        if block.style == "boxed" and bare[0] in "/~" and " " not in bare and ":" not in bare:
            block.part = bare  # a long path, wrapped inside its box
        if not text[0].isspace() and not bare[0].isdigit() and is_log_line(text):
            block.gap += 1
            if block.gap > _MAX_GAP_HEADLESS:
                self._close(block)
            return
        block.draft.members.append(index)
        block.lines.append(text)

    def _name(self, block: _Block, index: int, text: str, head: Head) -> None:
        """Take the last line of a traceback: the one that names its type."""
        block.draft.members += block.blanks if block.style == "notebook" else []
        self._take(block, index, text)
        block.draft.members.pop()
        type_, message = head.type, head.message
        block.draft.name(index, type_, message)
        block.stage = "message"
        block.indent = indent_of(text)
        block.awaits_code = False
        line = self.lines[index]
        block.stamped, block.level = line.time is not None, line.level

    def _say(self, block: _Block, index: int, text: str) -> None:
        for _ in block.blanks:
            block.draft.message.append("")
        block.draft.members += block.blanks
        self._take(block, index, text)
        block.draft.members.pop()
        block.draft.say(index, text[min(block.indent, indent_of(text)) :])

    def _in_message(self, block: _Block, index: int, text: str) -> None:
        draft = block.draft
        if text.strip() in _QUOTES:
            self._take(block, index, text)
            if self.quoting and block.draft.frames:
                self.quoting = False
                draft.quoted = True
                self._close(block)
            return
        if block.style == "pytest" or (_PYTEST_HEAD.match(text) and draft.frames == [] and not block.header):
            if self._in_pytest(block, index, text):
                return
            self._idle(index, text)
            return
        if JAVA_AT.match(text) or _JAVA_MORE.match(text):
            self._java_frame(block, index, text)
            return
        if self._java_head(index, text, block):
            return
        indent = indent_of(text)
        if block.stack_indent >= 0:
            if indent > block.stack_indent:
                draft.members.append(index)
                return
            if indent == 0:
                block.stack_indent = -1
        head = head_of(text) if indent <= block.indent else None
        if head and "(see above for traceback)" in text and draft.type.endswith(head.type):
            self._say(block, index, head.message)
            return
        if head and head.strength == "strong" and not _NCCL.match(text):
            self._next_head(block, index, text, head)
            return
        if self._ends_message(block, index, text, indent):
            self._close(block)
            if not self.open or self.last is block:
                self._idle(index, text)
            return
        if draft.type.endswith("ChildFailedError") and _RULE.match(text):
            block.rules += 1
            self._say(block, index, text)
            if block.rules == 2:
                self._close(block)
            return
        self._say(block, index, text)
        if len(block.lines) > _MAX_LINES and len(draft.message) > _MAX_LINES // 2:
            self._close(block)

    def _next_head(self, block: _Block, index: int, text: str, head: Head) -> None:
        """Take an exception's name below an open message: a lagging copy's last line, an inner or the next record."""
        waiting = [other for other in self.open if other.stage == "frames" and other.draft.frames]
        if waiting:
            self._name(max(waiting, key=lambda other: len(other.lines)), index, text, head)
            return
        said = block.draft.message
        inner = bool(said) and _WRAPS.search(said[-1]) is not None
        new = self._alone(index, text, head)
        if inner:
            block.draft.wrap(new.draft)

    def _ends_message(self, block: _Block, index: int, text: str, indent: int) -> bool:
        line = self.lines[index]
        if (line.time is not None and not block.stamped) or (line.level is not None and line.level != block.level):
            return True
        if text.lstrip().startswith(_JAX_NOTES):
            return not _is_jax_stage(block.draft)
        if block.draft.type.endswith("ChildFailedError") and block.rules < 2:
            return False
        if _RULE.match(text) or indent < block.indent or is_progress_bar(text):
            return True
        if indent <= block.indent and is_log_line(text):
            return True
        return bool(block.blanks) and not is_prose(text[block.indent :])

    def _in_pytest(self, block: _Block, index: int, text: str) -> bool:
        """Take more of a message that pytest printed (`E   ...`) or the place it names below; false when neither."""
        if (match := _PYTEST_HEAD.match(text)) and block.draft.type:
            head = head_of(match[1])
            if head and head.strength == "strong":
                return False
            self._take(block, index, text)
            block.draft.message.append(match[1])
            return True
        if match := _PYTEST_AT.match(text):
            self._take(block, index, text)
            block.draft.frames.append(Frame(match[1], int(match[2])))
            self._close(block)
            return True
        self._close(block)
        return False

    # Nothing open -----------------------------------------------------------------------------------------------------

    def _idle(self, index: int, text: str) -> None:
        if not hot(text) and self.member_of is None:
            return
        if self._java_head(index, text, None):
            return
        if (match := _PYTEST_HEAD.match(text)) and (head := head_of(match[1])) and head.strength == "strong":
            self._alone(index, text, head).style = "pytest"
            return
        head = head_of(text)
        if head and (head.strength == "strong" or self.member_of is not None) and not text.startswith(("   ", "\t")):
            self._alone(index, text, head)
            return
        if spoken := spoken_head_of(text, self.lines[index].level):
            self._alone(index, text, spoken)
            return
        if (frame := notebook_frame_of(text)) and self._notebook_follows():
            draft = Draft(members=[index], frames=[frame])
            block = _Block(draft, "frames", style="notebook", frame_at=index, lines=[text])
            self._open(block)

    def _notebook_follows(self) -> bool:
        """Tell whether source with its failing line marked follows: a notebook's traceback without its top."""
        ahead = self.stream[self.position + 1 : self.position + 8]
        return any(CALL_SITE.match(text) for _, text in ahead)

    def _alone(self, index: int, text: str, head: Head) -> _Block:
        """Make a record of a line that names an exception without a traceback above it."""
        block = _Block(Draft(), "frames")
        if self.member_of is not None:
            block.draft.follow("group", self.member_of)
            self.member_of = None
        elif self.pending:
            link, first, separator = self.pending.pop(0)
            block.draft.members.append(separator)
            block.draft.follow(link, first)
        self._end_messages()
        self._open(block)
        self._name(block, index, text, head)
        return block

    def _java_head(self, index: int, text: str, block: _Block | None) -> bool:
        match = _JAVA_HEAD.match(text)
        if not match or (text.startswith(": ") and not (block and block.draft.type.endswith("Py4JJavaError"))):
            return False
        outer = block.draft if block else None
        if outer is None and match[0].lstrip().startswith("Caused by"):
            outer = self._just_closed()
        new = self._alone(index, text, Head(match[1], match[2] or "", "strong"))
        new.draft.kind = "other"
        new.draft.innermost_first = True
        if outer is not None and (outer.kind == "other" or outer.type.endswith("Py4JJavaError")):
            outer.wrap(new.draft, "cause" if outer.kind == "other" else "remote")
        return True

    def _java_frame(self, block: _Block, index: int, text: str) -> None:
        self._take(block, index, text)
        if match := JAVA_AT.match(text):
            if not block.draft.frames:
                block.draft.kind = "other"
                block.draft.innermost_first = True
            if block.draft.innermost_first:
                block.draft.frames.append(Frame(match[2], int(match[3]) if match[3] else None, match[1]))

    # Chains and ends --------------------------------------------------------------------------------------------------

    def _separator(self, index: int, link: Link) -> None:
        block = self._speaking(first=True)
        if block is not None:
            draft = block.draft
            self._close(block)
        elif closed := self._just_closed():
            draft = closed
        else:
            return
        self.pending.append(("remote" if draft.quoted else link, draft, index))

    def _just_closed(self) -> Draft | None:
        return self.recent[1] if self.recent and self.position - self.recent[0] <= _NEAR else None

    def _group_rule(self, index: int, column: int, first: bool, opens: bool) -> None:
        parent: Draft | None = None
        if first:
            self.bars = True
            block = self._speaking()
            parent = block.draft if block else (self.done[-1] if self.done else None)
            column += 2
            if parent is not None:
                self.groups.append((column, parent))
        while self.groups and self.groups[-1][0] > column:
            self.groups.pop()
        self._end_messages()
        self.pending.clear()
        if self.groups and self.groups[-1][0] == column:
            parent = self.groups[-1][1]
            if not opens:
                self.groups.pop()
        self.member_of = parent if opens else None

    def _speaking(self, first: bool = False) -> _Block | None:
        """Return the open traceback whose message is being read: the last one, or the first one of several copies."""
        found = [block for block in self.open if block.stage == "message"]
        if not found:
            return None
        return found[0] if first or self.last not in found else self.last

    def _end_messages(self) -> None:
        for block in [block for block in self.open if block.stage == "message"]:
            self._close(block)

    @staticmethod
    def _absorb(stage: Draft, into: Draft) -> None:
        """Fold a record that only announces another (a remote traceback's wrapper, JAX's own stages) into that one."""
        into.link, into.previous = stage.link, stage.previous
        stage.merge_into(into)

    def _leave(self, block: _Block) -> None:
        if block in self.open:
            self.open.remove(block)
        if self.last is block:
            self.last = self.open[-1] if self.open else None
        if not self.open:
            self.shape = ""

    def _close(self, block: _Block, at_end: bool = False) -> None:
        if block not in self.open:
            return
        self._leave(block)
        draft = block.draft
        if block.stage == "frames":
            if block.after is not None and draft.frames:
                block.after.frames += draft.frames
                draft.merge_into(block.after)
                return
            if block.known_type:
                draft.type = block.known_type
            elif block.style == "notebook":
                if not any(frame.code for frame in draft.frames):
                    return
            else:
                draft.abandoned = not draft.frames and not at_end and draft.previous is None
            if draft.at < 0:
                draft.at = block.frame_at if block.frame_at >= 0 else max(draft.members)
        self._done(draft)

    def _done(self, draft: Draft) -> None:
        self.done.append(draft)
        self.recent = (self.position, draft)


def _expects_inner(block: _Block) -> bool:
    """Tell whether a message announces that another process's traceback follows in its text."""
    draft = block.draft
    if "RayTaskError" in draft.type or draft.type.endswith(("ChildFailedError", "RemoteTraceback")):
        return True
    return any(_WRAPS.search(said) for said in (*draft.message[:2], *draft.message[-2:]))


def _is_remote_wrapper(draft: Draft) -> bool:
    return draft.type.endswith("RemoteTraceback") and not draft.frames


def _is_jax_stage(draft: Draft) -> bool:
    return draft.type.endswith(_JAX_STAGES)
