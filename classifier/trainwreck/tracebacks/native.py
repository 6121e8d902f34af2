"""Native crashes: C++ `terminate`, glog checks, faulthandler dumps, signal handlers (Open MPI, Abseil), Rust panics."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainwreck.diagnosis import Frame
from trainwreck.tracebacks.draft import Draft
from trainwreck.tracebacks.shapes import frame_of, head_of, header_at, is_log_line

__all__ = ["opens", "read"]

_TERMINATE = re.compile(r"terminate called after throwing an instance of '([^']{1,300})'")
_WHAT = re.compile(r"\s*what\(\):\s*(.*)")
_FATAL = re.compile(r"Fatal Python error: (.*)")
_CHECK = re.compile(r"(?:F\d{4} .{0,200}?\] |F .{0,200}?\] |\[[^\]]{0,80}\] )?Check failed: (.*)")
_CHECK_TRACE = "*** Check failure stack trace: ***"
_MPI = re.compile(r"(?:\[[\w.-]{1,80}:\d{1,9}\] )?(?:\*\*\* Process received signal \*\*\*)")
_MPI_LINE = re.compile(r"(?:\[[\w.-]{1,80}:\d{1,9}\] ?)?(.*)")
_MPI_FRAME = re.compile(r"\[ ?(\d{1,4})\] (.{1,600})")
_SIGNAL = re.compile(r"\*\*\* (SIG[A-Z]{2,8})\b.{0,60}? received (?:at time|by PID)")
_UNHANDLED = re.compile(r".{0,200}?Unhandled exception: (\S{1,200}?)\. what\(\): (.*)")
_PANIC = re.compile(r"thread '[^']{0,80}'(?: \(\d+\))? panicked at (.*)")
_WATCHDOG = re.compile(r".{0,300}?\bterminated with exception: (.*)")
_CPP_FRAME = re.compile(r"\s*frame #\d{1,4}: (.*)")
_AT_FRAME = re.compile(r"\s*(?:PC: )?@\s+0x[0-9a-fA-F]+\s+(?:\(unknown\)|(?:\d+ +bytes? +|\(0x[0-9a-f]+\) )?(.*))")
_CURRENT = re.compile(r"Current thread 0x[0-9a-fA-F]+.{0,80}\(most recent call first\):")
_OTHER_THREAD = re.compile(r"Thread 0x[0-9a-fA-F]+.{0,80}\(most recent call first\):")
_RAISED = "Exception raised from "

_MAX_MESSAGE = 60
_PATIENCE = 12

Stream = Sequence[tuple[int, str]]


def opens(text: str) -> bool:
    """Tell whether a native crash report starts on this line."""
    return (
        ("terminate called after" in text and _TERMINATE.search(text) is not None)
        or ("Fatal Python error: " in text and _FATAL.search(text) is not None)
        or ("Check fail" in text and (_CHECK.match(text) is not None or _CHECK_TRACE in text))
        or ("received" in text and (_MPI.match(text) is not None or _SIGNAL.match(text) is not None))
        or ("Unhandled exception: " in text and _UNHANDLED.match(text) is not None)
        or ("terminated with exception: " in text and _WATCHDOG.match(text) is not None)
        or ("panicked" in text and _PANIC.match(text) is not None)
        or ("frame #" in text and _CPP_FRAME.match(text) is not None)
        or text.startswith(_RAISED)
    )


def read(stream: Stream, start: int, taken: set[int]) -> Draft:
    """Read the report that opens at position `start` of `stream`; positions it uses are added to `taken`.

    Lines of other processes in between are stepped over and left for the caller.
    """
    index, text = stream[start]
    taken.add(start)
    draft = Draft(kind="native", innermost_first=True)
    if match := _TERMINATE.search(text):
        draft.name(index, match[1])
        _what(stream, start + 1, taken, draft)
    elif match := _FATAL.search(text):
        draft.name(index, "Fatal Python error", match[1])
        _threads(stream, start + 1, taken, draft)
    elif match := _CHECK.match(text):
        draft.name(index, "Check failed", match[1])
        _addresses(stream, start + 1, taken, draft)
    elif match := _SIGNAL.match(text):
        draft.name(index, match[1], text.strip("* "))
        _addresses(stream, start + 1, taken, draft)
    elif _MPI.match(text):
        draft.name(index, "Signal")
        _open_mpi(stream, start + 1, taken, draft)
    elif match := _UNHANDLED.match(text):
        draft.name(index, match[1], match[2])
        _message(stream, start + 1, taken, draft)
    elif match := _PANIC.match(text):
        draft.name(index, "panic", match[1])
        _message(stream, start + 1, taken, draft)
    elif match := _WATCHDOG.match(text):
        draft.name(index, "", match[1])
        _message(stream, start + 1, taken, draft)
    else:  # the list of addresses alone: its head was cut off
        draft.name(index, "")
        if frame := _cpp_frame(text):
            draft.frames.append(frame)
        elif _CHECK_TRACE in text:
            _addresses(stream, start + 1, taken, draft)
            return draft
        _message(stream, start + 1, taken, draft)
        draft.at = draft.members[-1]
    return draft


def _boundary(text: str) -> bool:
    return (
        header_at(text) >= 0
        or (opens(text) and not _CPP_FRAME.match(text) and not text.startswith(_RAISED))
        or is_log_line(text)
        or frame_of(text) is not None
    )


def _what(stream: Stream, start: int, taken: set[int], draft: Draft) -> None:
    for position in range(start, min(start + _PATIENCE, len(stream))):
        if position in taken:
            continue
        index, text = stream[position]
        if match := _WHAT.match(text):
            taken.add(position)
            draft.say(index, match[1])
            _message(stream, position + 1, taken, draft)
            return


def _message(stream: Stream, start: int, taken: set[int], draft: Draft) -> None:
    """Read the rest of a message and the `frame #0: ...` list below it."""
    in_stack = bool(draft.frames)
    misses = 0
    for position in range(start, len(stream)):
        index, text = stream[position]
        if position in taken:
            continue
        if frame := _cpp_frame(text):
            in_stack, misses = True, 0
            draft.frames.append(frame)
            draft.members.append(index)
        elif text.startswith(_RAISED) and not in_stack:
            in_stack = True
            draft.members.append(index)
        elif in_stack:
            misses += 1
            if misses > 3 or (text.strip() and _boundary(text)):
                return
            continue
        elif not text.strip():
            # A blank line ends the message unless its stack follows.
            ahead = stream[position + 1][1] if position + 1 < len(stream) else ""
            if not (ahead.startswith(_RAISED) or _cpp_frame(ahead)):
                return
            draft.members.append(index)
        elif _boundary(text) or len(draft.message) >= _MAX_MESSAGE or _strong(text):
            return
        else:
            draft.say(index, text)
        taken.add(position)


def _strong(text: str) -> bool:
    head = head_of(text)
    return head is not None and head.strength == "strong"


def _cpp_frame(text: str) -> Frame | None:
    if "frame #" not in text:
        return None
    match = _CPP_FRAME.match(text)
    if not match:
        return None
    function, _, rest = match[1].partition(" + 0x")
    at = rest.rfind(" in ")
    library = rest[at + 4 :].rstrip(") ") if at >= 0 else ""
    return Frame(library, None, function.strip() or None)


def _addresses(stream: Stream, start: int, taken: set[int], draft: Draft) -> None:
    """Read the `@ 0x... function` lines of glog and Abseil."""
    misses = 0
    for position in range(start, len(stream)):
        if position in taken:
            continue
        index, text = stream[position]
        if _CHECK_TRACE in text and draft.type == "Check failed" and not draft.frames:
            draft.members.append(index)
        elif "@" in text and (match := _AT_FRAME.match(text)):
            draft.members.append(index)
            draft.frames.append(Frame("", None, (match[1] or "").strip() or None))
        else:
            misses += 1
            if misses > 3 or header_at(text) >= 0:
                return
            continue
        taken.add(position)
        misses = 0


def _threads(stream: Stream, start: int, taken: set[int], draft: Draft) -> None:
    """Read faulthandler's dump. Frames of the current thread count; other threads are members only."""
    current = seen_current = False
    misses = 0
    for position in range(start, len(stream)):
        if position in taken:
            continue
        index, text = stream[position]
        found = frame_of(text)
        if _CURRENT.match(text):
            current = seen_current = True
        elif _OTHER_THREAD.match(text):
            current = False
        elif found and " line " in text and not header_at(text) >= 0:
            # `line 3 in f`, without the comma of a traceback.
            if f'", line {found[0].line}, in ' in text:
                return
            if current:
                draft.frames.append(found[0])
        elif text.startswith(("  <no Python frame>", "  ...", "Extension modules: ", "Python runtime state: ")):
            current = False
        elif not text.strip() and not (seen_current and misses):
            continue
        else:
            misses += 1
            if misses > 3 or header_at(text) >= 0:
                return
            continue
        draft.members.append(index)
        taken.add(position)


def _open_mpi(stream: Stream, start: int, taken: set[int], draft: Draft) -> None:
    misses = 0
    for position in range(start, len(stream)):
        if position in taken:
            continue
        index, text = stream[position]
        match = _MPI_LINE.match(text)
        said = match[1] if match else text
        if said.startswith("Signal: "):
            draft.at = index
            draft.say(index, said[8:])
        elif said.startswith(("Signal code: ", "Failing at address: ", "Associated errno: ")):
            draft.members.append(index)
        elif frame := _MPI_FRAME.match(said):
            library, _, rest = frame[2].partition("(")
            draft.members.append(index)
            draft.frames.append(Frame(library.strip(), None, rest.partition(")")[0].partition("+")[0] or None))
        elif "*** End of error message ***" in said:
            draft.members.append(index)
            taken.add(position)
            return
        else:
            misses += 1
            if misses > 3:
                return
            continue
        taken.add(position)
