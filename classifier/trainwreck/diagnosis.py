"""The types that flow through trainwreck, from a line of a log to the Diagnosis.

Everything here is frozen: a stage makes new values and never edits those of an earlier stage.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

__all__ = [
    "SCHEMA_VERSION",
    "Diagnosis",
    "Evidence",
    "ExceptionRecord",
    "FirstFailure",
    "Fix",
    "Frame",
    "Hit",
    "Line",
    "Retry",
    "Role",
    "Source",
    "UnknownBecause",
]

SCHEMA_VERSION = "1"

Role = Literal["root", "collateral", "context"]
Retry = Literal["restart", "elsewhere", "stop", "after", "none", "unknown"]
Source = Literal["model", "fingerprint", "metrics"]
UnknownBecause = Literal["no_evidence", "not_covered", "ambiguous", "not_a_job_log"]


@dataclass(frozen=True, slots=True)
class Line:
    """One logical line. A physical line with `\\r` progress bars or a JSON envelope may give several with the same number."""

    number: int
    """1-based number of the physical line in `file`, counting `\\n` only."""
    text: str
    """What was said: no control characters, with timestamp, rank, host, level and quote marks set aside."""
    quote: str
    """The physical line (or its `\\r` segment) without control characters; what is shown as evidence."""
    file: str | None = None
    rank: int | None = None
    """Global rank, from a prefix or from the file's name."""
    local_rank: int | None = None
    host: str | None = None
    time: datetime | None = None
    """As printed; may be naive (no zone was printed)."""
    level: str | None = None
    """`DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL` where a logger printed one."""
    speaker: str = ""
    """Identity of the process that printed the line as far as its prefix tells (`rank3`, `Actor pid=744`); `""` if it does not.
    Lines of one speaker belong together when several processes write to one file."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stack, as printed."""

    file: str
    line: int | None = None
    function: str | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class ExceptionRecord:
    """One raised exception (or native crash) as the log shows it. Indices point into the list of `Line`s it was read from."""

    type: str
    """As printed, e.g. `torch.cuda.OutOfMemoryError`; a C++ type for `terminate called`; `""` when the log was cut before it."""
    message: str
    """All lines of the message and its notes, joined by `\\n`; may be empty."""
    frames: tuple[Frame, ...]
    """Outermost first, whatever order the log printed them in."""
    members: tuple[int, ...]
    """Indices of all lines that belong to this record, ascending. Not contiguous when ranks interleave."""
    at: int
    """Index of the line that names the type (the last frame's line when the log was cut before it)."""
    kind: Literal["python", "native", "other"] = "python"
    link: Literal["cause", "context", "group", "remote"] | None = None
    """How this record follows from `previous`: `cause` = "direct cause of", `context` = "During handling of", `group` = a member of
    an exception group, `remote` = re-raised from a worker process's text."""
    previous: int | None = None
    """Index, in the parser's result, of the record that this one was chained to (the one printed first, the inner one)."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A fingerprint that matched."""

    label: str
    """Id of the entry the fingerprint belongs to."""
    fingerprint: str
    """Id of the fingerprint."""
    role: Literal["root", "collateral", "confirms", "excludes"]
    specific: bool
    index: int
    """Index of the line in the list of `Line`s (for a metric fingerprint: the line of the anomaly)."""
    start: int = 0
    end: int = 0
    """Span of the match in the line's text, in characters."""
    conditions: int = 0
    """How many conditions beyond the pattern held (context, frames, numbers): a measure of how narrow the claim is."""
    facts: tuple[tuple[str, Any], ...] = ()
    exception: int | None = None
    """Index of the exception record that the line belongs to, in the parser's result."""
    by: Literal["pattern", "metrics", "ranks"] = "pattern"
    """What matched: a line's text, the metric series, or what several ranks say side by side."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of the log that supports the diagnosis."""

    file: str | None
    line: int
    text: str
    role: Role


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """Where the failure began."""

    file: str | None
    line: int
    rank: int | None
    host: str | None
    time: str | None
    """ISO 8601, or None when the log prints no time."""
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do, with the facts of this run filled in."""

    primary: str = ""
    fallback: str = ""
    stopgap: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer. Field names are a contract: `to_dict()` gives the same names, checked against `diagnosis.schema.json`."""

    label: str
    title: str
    family: str
    confidence: float
    """Calibrated probability in 0..1 that `label` is right; of `unknown`, that abstaining was right."""
    source: Source
    alternatives: tuple[tuple[str, float], ...] = ()
    """(label, probability), most probable first, without the chosen label."""
    first_failure: FirstFailure | None = None
    evidence: tuple[Evidence, ...] = ()
    collateral: tuple[Evidence, ...] = ()
    exception: dict[str, Any] | None = None
    """`{type, message, frames: [{file, line, function, code}], chain: [{type, message, link}]}` of the first failure, if it is one."""
    unknown_because: UnknownBecause | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """Typed values taken from the log, by the suffix of the name: `_bytes` int, `_seconds` float, `_count`/`_rank`/`_step` int,
    `_float` float, `_path`/`_shape`/`_name` str."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """Summary of the metric series, empty when the log prints none."""
    retry: Retry = "unknown"
    retry_reason: str = ""
    entry: dict[str, Any] = field(default_factory=dict)
    """The taxonomy entry of `label`, without its fingerprints."""
    fix: Fix = field(default_factory=Fix)
    confirm: tuple[str, ...] = ()
    verify: str = ""
    questions: tuple[dict[str, str], ...] = ()
    """Questions that tell the label from its neighbours: `{id, question, if_yes, if_no}`."""
    why: dict[str, Any] = field(default_factory=dict)
    """What decided: `{rule, because, runner_up, runner_up_lost_because}`."""
    schema_version: str = SCHEMA_VERSION
    bundle: dict[str, str] = field(default_factory=dict)
    """`{name, digest}` of the bundle that answered."""
    taxonomy_version: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists and scalars, ready for `json.dumps`."""
        plain: dict[str, Any] = _lists(asdict(self))
        return plain


def _lists(value: Any) -> Any:
    """Tuples as lists: what JSON reads back is then equal to what was written."""
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value
