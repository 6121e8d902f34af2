"""What one line of a log can be in the eyes of a traceback parser. Pure functions of a line's text; no state.

Every pattern here is anchored or has bounded repeats, so the cost of a line is linear in its length, which is capped
anyway.
"""

from __future__ import annotations

import builtins
import re
from typing import Literal, NamedTuple

from trainwreck.diagnosis import Frame

__all__ = [
    "CALL_SITE",
    "GROUP_RULE",
    "JAVA_AT",
    "LEAD",
    "MAX_TEXT",
    "REPEATED",
    "Head",
    "chain_of",
    "frame_of",
    "head_of",
    "header_at",
    "hot",
    "indent_of",
    "is_log_line",
    "is_marker",
    "is_progress_bar",
    "is_prose",
    "notebook_frame_of",
    "opens_stack",
    "quotes_stack",
    "spoken_head_of",
]

MAX_TEXT = 2000
"""Characters of a line that are looked at (and kept in a message)."""

Strength = Literal["weak", "strong"]


class Head(NamedTuple):
    """The line that names an exception: `torch.cuda.OutOfMemoryError: CUDA out of memory.`"""

    type: str
    message: str
    strength: Strength
    """`strong`: an exception wherever it stands; `weak`: one only where a traceback waits for its last line."""


# Order matters for speed only: what is frequent in healthy logs comes last.
_TRIGGERS = (
    "Error",
    'File "',
    "raceback",
    "Exception",
    "most recent call",
    "terminate called",
    "frame #",
    "Check fail",
    "Fatal Python",
    "received",
    "Interrupt",
    "Caused by",
    "SystemExit",
    "StopIteration",
    "During handling",
    "direct cause",
    "exceptions.",
    ".exc.",
    "errors.",
    "error: ",
    "imeout",
    "panicked",
    "-> ",
    "│",
)


def hot(text: str) -> bool:
    """Tell whether a line may begin something; false for almost every line of a healthy log."""
    for trigger in _TRIGGERS:  # noqa: SIM110 - a plain loop is twice as fast as any() with a generator
        if trigger in text:
            return True
    return False


def indent_of(text: str) -> int:
    """Return the number of leading white-space characters."""
    return len(text) - len(text.lstrip())


def header_at(text: str) -> int:
    """Return where `Traceback (most recent call last)` starts in `text`, or -1. Words may stand before it."""
    at = text.find("Traceback (most recent call last)")
    return at if at >= 0 else text.find("Traceback (innermost last)")


_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"


def chain_of(text: str) -> Literal["cause", "context"] | None:
    """Return how the exception below this separator line follows from the one above it, or None."""
    if _CAUSE in text:
        return "cause"
    return "context" if _CONTEXT in text else None


_FILE = re.compile(r'File "([^"]{1,1000})", line (\d{1,9})(?:,? in (\S.{0,300}))?')
_NOTEBOOK_FILE = re.compile(r"File ([^\s\"].{0,400}?):(\d{1,9})(?:, in (\S.{0,300}))?$")
_CELL = re.compile(r"((?:Cell|Input) In ?\[\d{1,6}\])(?:, line (\d{1,9}))?(?:, in (\S.{0,300}))?$")
_NOTEBOOK_OLD = re.compile(r"(<ipython-input-[^>]{1,80}>|[^\s()\"']{1,400}\.pyx?) in (\S.{0,400})$")
_BOXED = re.compile(r"([^\s:]{1,400}|[A-Za-z]:[^\s:]{1,400}):(\d{1,9}) in (\S.{0,200})$")


def frame_of(text: str) -> tuple[Frame, int] | None:
    """Return the frame that a `File "x", line 1, in f` line shows and the column where it starts, or None."""
    at = text.find('File "')
    if at < 0:
        return None
    match = _FILE.match(text, at)
    if not match:
        return None
    return Frame(match[1], int(match[2]), match[3].rstrip() if match[3] else None), at


def notebook_frame_of(text: str) -> Frame | None:
    """Return the frame that a line of an IPython or rich traceback shows, or None."""
    text = text.strip()
    if match := _CELL.match(text):
        return Frame(match[1], int(match[2]) if match[2] else None, match[3])
    if match := _NOTEBOOK_FILE.match(text):
        return Frame(match[1], int(match[2]), match[3])
    if match := _BOXED.match(text):
        return Frame(match[1], int(match[2]), match[3])
    if match := _NOTEBOOK_OLD.match(text):
        return Frame(match[1], None, match[2])
    return None


CALL_SITE = re.compile(r"\s*(?:-{1,5}>|[❱>])\s*(\d{1,9})(?: |$)(.*)")
"""The line marked as the failing one in the source that IPython and rich print: `----> 12 code`, `❱ 12 code`."""

REPEATED = re.compile(r"\s*(?:\[Previous line repeated \d+ more times?\]|\.\.\.<\d+ lines?>\.\.\.)\s*$")

_MARKER = re.compile(r"[\s^~|]*$")


def is_marker(text: str) -> bool:
    """Tell whether the line only points into the code line above it: `    ~~~~^^^^`."""
    return ("^" in text or "~~" in text) and _MARKER.match(text) is not None


_PART = r"[A-Za-z_<][\w>]{0,80}"
_HEAD = re.compile(
    rf"((?:{_PART}\.){{0,12}}{_PART})(?:\((\w{{1,80}})\))?(?: \(see above for traceback\))?"
    r"(?::(?:\s+(.*)|(\S.*)?$)|\s*$)"
)
_SUFFIX = re.compile(r"(?:Error|Exception|Interrupt|Failure|Failed|Violation|NotFound)$")
_MODULES = frozenset(("exceptions", "errors", "error", "exc", "_errors", "errors_impl", "exception", "_exceptions"))
_ODD = frozenset(
    (
        "BaseExceptionGroup",
        "ExceptionGroup",
        "GeneratorExit",
        "JaxStackTraceBeforeTransformation",
        "KeyboardInterrupt",
        "RemoteTraceback",
        "SimplifiedTraceback",
        "StopAsyncIteration",
        "StopIteration",
        "SystemExit",
        "UnfilteredStackTrace",
        "_RemoteTraceback",
    )
)
_LOWER = frozenset(("error", "timeout", "gaierror", "herror"))
_SHORT = frozenset(
    ("Empty", "Full", "Timeout", "Abort", "Exit", "Again", "Unsupported", "Cancelled", "Error", "Exception")
)
_BUILTIN = frozenset(name for name in dir(builtins) if name.endswith("Error"))
_FILE_ENDS = frozenset(
    ("c", "cc", "cpp", "cu", "cuh", "h", "hpp", "json", "log", "pt", "py", "pyx", "sh", "so", "txt", "yaml", "yml")
)
_CAMEL = re.compile(r"_*[A-Z]\w*[a-z0-9]\w*[A-Z]|_*[A-Z]{2,}[a-z]")
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?\s*%?$")
_CAPITAL = re.compile(r"_*[A-Z]")


def _strength(name: str, message: str, colon: bool) -> Strength | None:
    first, *rest = name.split(".")
    last = rest[-1] if rest else first
    if last in _ODD:
        return "strong"
    if last in _FILE_ENDS:
        return None
    if rest and last in _LOWER:
        return "strong" if colon else "weak"
    if not _CAPITAL.match(last):
        return None
    if last.endswith("Warning"):
        return "weak"
    if _SUFFIX.search(last):
        if not rest:
            if last == "Error" or (last == "Exception" and not colon):
                return "weak"
            if not last.endswith(("Error", "Exception", "Interrupt")):
                return "weak"
            # "ValidationError: 0.134" is a metric, "KeyError: 0" is not.
            if last not in _BUILTIN and _NUMBER.match(message):
                return None
        return "strong"
    if rest:
        if _MODULES.intersection((first, *rest[:-1])) or last.endswith(("Timeout", "TimeoutExpired")):
            return "strong"
        return "weak"
    if last in _SHORT and not _NUMBER.match(message):
        return "weak"
    return "weak" if _CAMEL.match(last) else None


def head_of(text: str) -> Head | None:
    """Return the exception that a line names at its start (white space apart), or None.

    Accepts `pkg.SomeError: message`, `SomeError:` and the bare `KeyboardInterrupt`. A warning's line and `Error: ...`
    are weak heads at most; a level, a file name or a host is none.
    """
    match = _HEAD.match(text.strip())
    if not match:
        return None
    name, inner, spaced, tight = match.groups()
    if tight:  # "torch.Size:x" is no exception, "pickle.UnpicklingError:invalid load key" is one
        strength = _strength(name, tight, True)
        if strength != "strong" or tight.startswith(":"):
            return None
    message = (spaced or tight or "").rstrip()
    found = _strength(name, message, ":" in text)
    if found is None:
        return None
    return Head(f"{name}({inner})" if inner else name, message, found)


_SPOKEN = re.compile(
    r"(?<![\w.'\"`(\[=<])((?:[A-Za-z_]\w{0,80}\.){0,8}_?[A-Z]\w{0,80}?(?:Error|Exception|Interrupt)): (\S.*)"
)
_SPOKEN_REPR = re.compile(
    r"(?<![\w.'\"`\[=<])((?:[A-Za-z_]\w{0,80}\.){0,8}_?[A-Z]\w{0,80}?(?:Error|Exception))\(['\"](\S.*)"
)
_ALARM = re.compile(
    r"(?i)\b(?:error|fail|failed|failure|fatal|exception|crash|crashed|caught|aborted|aborting|died|unhandled|uncaught"
    r"|critical)\b"
    r"|it/s\]|s/it\]|\d%\|"
)
_CALM = re.compile(r"\braise |[Ww]arn|WARN|\bINFO\b|[Rr]etry|[Ii]gnor|[Ss]kip")


def spoken_head_of(text: str, level: str | None = None) -> Head | None:
    """Return the exception that a log sentence names after other words: `train failed: RuntimeError: out of memory`.

    Only where the words before it (or the logger's level) sound an alarm, and none of them takes it back.
    """
    if "Error: " in text or "Exception: " in text or "Interrupt: " in text:
        match = _SPOKEN.search(text)
    elif "Error(" in text or "Exception(" in text:
        match = _SPOKEN_REPR.search(text)
    else:
        return None
    if not match or (match.start() == 0 and not level):
        return None
    before = text[: match.start()]
    if _CALM.search(before) or not (level in ("ERROR", "CRITICAL") or _ALARM.search(before)):
        return None
    message = match[2].rstrip()
    if match.re is _SPOKEN_REPR:
        message = message.rstrip(",)").rstrip("'\"").replace("\\n", "\n")
    found = _strength(match[1], message, True)
    return Head(match[1], message, found) if found == "strong" else None


_QUOTED_STACKS = ("defined at (most recent call last):", "Original stack trace for ", "Caused by op ")
_QUOTED_STACK_ENDS = ("defined at:", "Defined at:", "Original traceback:", "from user code:")
_OTHER_STACKS = ("Stack (most recent call last):", "Traceback of forward call that")


def quotes_stack(text: str) -> bool:
    """Tell whether a line of a message announces where an operation was defined: a stack that is no traceback."""
    return text.rstrip().endswith(_QUOTED_STACK_ENDS) or any(words in text for words in _QUOTED_STACKS)


def opens_stack(text: str) -> bool:
    """Tell whether a line announces a stack which is nobody's exception."""
    return (
        quotes_stack(text)
        or any(words in text for words in _OTHER_STACKS)
        or text.rstrip().endswith("Call stack:")
        or ("Thread 0x" in text and "(most recent call first)" in text)
    )


LEAD = re.compile(
    r"Process [\w-]{1,60}(?::\d{1,6}){0,6}:\s*$|Exception in thread .{1,200}:\s*$|Exception ignored in\b"
    r"|Exception in callback\b|Exception in ASGI|Error executing job with overrides|--- Logging error ---"
    r"|Unhandled exception\b|Uncaught exception\b|Task exception was never retrieved"
    r"|Future exception was never retrieved|Error in sys\.excepthook|Original exception was:"
)
"""A line that belongs to the traceback right below it."""

GROUP_RULE = re.compile(r"\s*(\+-)?\+-{3,60}(?: (\d{1,6}|\.\.\.) -{3,60})?\s*$")
"""The rules between the members of an exception group; group 1 is set on the first, group 2 is missing on the last."""

JAVA_AT = re.compile(r"\s*at ([\w.$<>/@-]{1,300})\(([^():]{1,200})(?::(\d{1,9}))?\)")

_LOG_LINE = re.compile(
    "|".join(
        (
            r"\[?\d{4}[-/]\d\d[-/]\d\d[ T_]|\[?\d\d:\d\d:\d\d|[IWEF]\d{4} \d\d:|\[[IWEF]\d{3,4} |\[[IWEF] \w",
            r"\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|CRITICAL|FATAL)\b[\]:| ]",
            r"(?:\w{1,20}: )?\w{0,30}Warning: |\S{1,300}\.py:\d{1,9}: \w{1,60}Warning: ",
            # launchers, shells and what they say
            r"(?:srun|slurmstepd|salloc|sbatch|wandb|mpirun|mpiexec|prterun|torchrun|make|bash|sh|ninja): ",
            r"\S{1,200}: error: |\S{1,60}\.sh: |==> .{1,200} <==|Killing subprocess|Root Cause \(",
            r"\S{1,40}@\S{1,60}:\S{0,100}[#$]|[$%] \S",
            r"(?:Aborted|Killed|Terminated|Segmentation fault|Bus error|Illegal instruction)\b.{0,40}$",
            r"Set the environment variable HYDRA_FULL_ERROR|E(?:rror|RROR) executing job",
            # progress
            r"\{['\"](?:loss|eval_|train_)|(?:[Ee]poch|[Ss]tep|[Ii]ter|[Ii]teration)\b[ :=\[(]{0,4}\d",
            # other kinds of records
            r"Exception raised from |frame #\d|terminate called|Fatal Python error: |THCudaCheck|\*\*\* ",
            r"\[[\w.-]{1,60}:\d{1,9}\] \*\*\* |-{10,}\s*$|The above exception|During handling of",
        )
    )
)
_BAR = re.compile(r"(?:\S.{0,60}: )?\s*\d{1,3}%\|")
_METRICS = re.compile(r"\bloss['\"]?\s?[:=]\s?['\"]?[-\d.]|\d(?:it/s|s/it)\b")


def is_progress_bar(text: str) -> bool:
    """Tell whether the line is a progress bar, which is indented like more of a message: `  7%|▋   | 21/300`."""
    return "%|" in text and _BAR.match(text) is not None


def is_log_line(text: str) -> bool:
    """Tell whether an unindented line is a new record of a logger, launcher or shell rather than more of a message."""
    return _LOG_LINE.match(text) is not None or is_progress_bar(text) or _METRICS.search(text) is not None


_PROSE = re.compile(r"\s|[*•(`'\"A-Z-]")


def is_prose(text: str) -> bool:
    """Tell whether a line may go on with a message after a blank line: indented, a bullet or a sentence."""
    return _PROSE.match(text) is not None and (text[:1].isspace() or text[:1] in "*•-" or text.count(" ") >= 4)
