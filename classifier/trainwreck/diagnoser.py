"""The pipeline: a log in, a Diagnosis out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from trainwreck import collectives, tracebacks
from trainwreck.bundle import Bundle, load_bundle
from trainwreck.diagnosis import Diagnosis, Evidence, ExceptionRecord, FirstFailure, Fix, Hit, Line, Role
from trainwreck.errors import InputError, InputWarning, UsageError
from trainwreck.excerpting import excerpt
from trainwreck.facts import fill
from trainwreck.metrics.formats import read_series
from trainwreck.metrics.shape import Shape, shape_of
from trainwreck.ordering import dated, failing_rank, incidents
from trainwreck.reading.sources import Source, find_sources
from trainwreck.reading.text import read_lines
from trainwreck.redaction import redact
from trainwreck.rules import MODES, Mode, Verdict, decide, settle
from trainwreck.scanning import Scanner, numeric_hits

__all__ = ["Diagnoser"]

READ_WHOLE_BYTES = 2 * 2**20
"""Sources up to this size are read line by line; larger ones by excerpt, of at most this size."""
JOB_BYTES = 16 * 2**20
"""What is read of all files of a job together; with many files each is read by a smaller excerpt."""
LEAST_BYTES = 32 * 2**10
"""What is read of a file however many there are."""
EVIDENCE_LINES = 6
COLLATERAL_LINES = 10
QUOTE_CHARACTERS = 600

Target = str | bytes | Path | Source | Sequence[Path]


class Diagnoser:
    """A loaded bundle, ready to diagnose. Safe to share between threads."""

    def __init__(self, model: str | Path | None = None, *, mode: Mode = "balanced", redact: bool = True) -> None:
        """Load `model`, a bundle folder (default: the one that ships).

        `mode` is `precise` (no answer below a confidence of 0.9), `balanced`, or `best-guess` (a candidate rather than `unknown`).
        With `redact`, secrets that stand in the log are masked in everything a Diagnosis holds. Raises BundleError, and UsageError for
        a mode that does not exist.
        """
        if mode not in MODES:
            raise UsageError(f"there is no mode {mode!r}; there are {', '.join(MODES)}")
        self.bundle: Bundle = load_bundle(None if model is None else Path(model))
        self.taxonomy = self.bundle.taxonomy
        self._scanner = Scanner(self.taxonomy)
        self._mode: Mode = mode
        self._redact = redact

    def diagnose(self, log: Target) -> Diagnosis:
        """Return what failed first. `str` and `bytes` are log text; a `Path` is a file or a folder; several paths are one job.

        Raises InputError when no path can be read and UsageError when a one-line `str` names an existing file; warns with InputWarning
        of a file among several that cannot be read.
        """
        return self.diagnose_all(log)[0]

    def diagnose_file(self, path: str | Path) -> Diagnosis:
        """Return what failed first in the file or folder at `path`."""
        return self.diagnose(Path(path))

    def diagnose_files(self, paths: Iterable[str | Path]) -> Diagnosis:
        """Return what failed first in a job that left several files, one a rank."""
        return self.diagnose([Path(path) for path in paths])

    def diagnose_many(self, logs: Iterable[Target]) -> list[Diagnosis]:
        """Return a Diagnosis for each log, each as `diagnose` would."""
        return [self.diagnose(log) for log in logs]

    def diagnose_all(self, log: Target, advance: Callable[[int], None] | None = None) -> list[Diagnosis]:
        """Return every independent failure: the first is what `diagnose` returns, then named failures of other processes.

        `advance` is called with a number of bytes whenever that much more of a large source was read.
        """
        lines: list[Line] = []
        sources = find_sources(log)
        share = _share([source.size or 0 for source in sources])
        for number, source in enumerate(sources):
            try:
                lines += self._read(source, share, advance)
            except InputError as error:
                # One damaged file must not cost the answer that the others give.
                if number == len(sources) - 1 and not lines:
                    raise
                warnings.warn(f"{error}; it is left out", InputWarning, stacklevel=2)
        records = tracebacks.parse(lines)
        shape = shape_of(read_series(lines), lines)
        hits = [
            *self._scanner.hits(lines, records),
            *numeric_hits(self.taxonomy, shape.features, shape.anchors, "metrics"),
            *numeric_hits(self.taxonomy, *collectives.features(lines), "ranks"),
        ]
        verdicts = decide(
            self.taxonomy, lines, records, hits, incidents(lines, records, hits), shape, self.bundle.precision
        )
        settled = [settle(verdict, self._mode, self.bundle.precision) for verdict in verdicts]
        return [self._diagnosis(verdict, lines, records, shape) for verdict in settled]

    def _read(self, source: Source, share: int, advance: Callable[[int], None] | None) -> list[Line]:
        data = source.read(share + 1)
        if len(data) > share:
            return excerpt(source, self._scanner, share, advance)
        return read_lines(data, file=source.name, rank=source.rank, local_rank=source.local_rank, host=source.host)

    def _diagnosis(
        self,
        verdict: Verdict,
        lines: Sequence[Line],
        records: Sequence[ExceptionRecord],
        shape: Shape,
    ) -> Diagnosis:
        entry = self.taxonomy[verdict.label]
        mask: Callable[[str], str] = redact if self._redact else str
        facts: dict[str, Any] = {}
        for hit in _of_one_process(verdict, lines):
            for name, value in hit.facts:
                facts.setdefault(name, mask(value) if isinstance(value, str) else value)
        fingerprint = self.taxonomy.by_fingerprint[verdict.hit.fingerprint] if verdict.hit else None
        content = entry.content
        first = _first_failure(verdict, lines, records, bool(content.get("whole_job")), mask)
        told = {**shape.summary, **facts}
        if first is not None and first.rank is not None:
            told["failing_rank"] = first.rank
        fixes = {**content.get("fix", {}), **dict(fingerprint.fix if fingerprint else ())}
        wanted = [label for label, _ in verdict.alternatives]
        questions = sorted(
            content.get("tell_apart", ()), key=lambda q: wanted.index(q["id"]) if q["id"] in wanted else 99
        )
        return Diagnosis(
            label=entry.id,
            title=entry.title,
            family=entry.family,
            confidence=verdict.confidence,
            source=verdict.source,
            alternatives=verdict.alternatives,
            first_failure=first,
            evidence=_evidence(verdict, lines, records, shape, mask),
            collateral=_quotes([(hit.index, "collateral") for hit in verdict.echoes], lines, mask)[:COLLATERAL_LINES],
            exception=_exception(verdict, records, mask),
            unknown_because=verdict.unknown_because,
            facts=facts,
            metrics=dict(shape.summary),
            retry=(fingerprint and fingerprint.retry) or entry.retry,  # type: ignore[arg-type]
            retry_reason=(fingerprint and fingerprint.retry_reason) or content.get("retry_reason", ""),
            entry={**content, "owner": (fingerprint and fingerprint.owner) or entry.owner},
            fix=Fix(**{name: fill(text, told) for name, text in fixes.items()}),
            confirm=tuple(fill(step, told) for step in content.get("confirm", ())),
            verify=fill(content.get("verify", ""), told),
            questions=tuple(questions),
            why={
                "rule": verdict.rule,
                "because": verdict.because,
                "runner_up": verdict.runner_up,
                "runner_up_lost_because": verdict.runner_up_lost_because,
            },
            bundle={"name": self.bundle.name, "digest": self.bundle.digest},
            taxonomy_version=self.taxonomy.version,
        )


def _share(sizes: Sequence[int]) -> int:
    """How many bytes of each file may be read: small ones leave what they do not need to the large ones."""
    left, share = JOB_BYTES, READ_WHOLE_BYTES
    for count, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        share = left // count
        if size > share:
            break
        left -= size
    return min(READ_WHOLE_BYTES, max(LEAST_BYTES, share))


def _of_one_process(verdict: Verdict, lines: Sequence[Line]) -> list[Hit]:
    """The hits that speak for the answer from the process in which it failed, the deciding one first: ranks' numbers do not mix."""
    if verdict.hit is None:
        return list(verdict.supporting)
    here = lines[verdict.hit.index]
    same = [
        hit
        for hit in verdict.supporting
        if (lines[hit.index].file, lines[hit.index].speaker) == (here.file, here.speaker)
    ]
    return [verdict.hit, *same]


def _quote(line: Line, mask: Callable[[str], str]) -> str:
    # Masked before it is cut: half a secret is no longer recognised as one.
    return mask(line.quote)[:QUOTE_CHARACTERS].strip()


def _quotes(
    marked: Sequence[tuple[int, Role]], lines: Sequence[Line], mask: Callable[[str], str]
) -> tuple[Evidence, ...]:
    """One Evidence a line, in the order given, first role kept; the same words are not quoted twice."""
    found: dict[tuple[str | None, int], Evidence] = {}
    said: set[str] = set()
    for index, role in marked:
        line = lines[index]
        if (line.file, line.number) not in found and line.text not in said:
            said.add(line.text)
            found[line.file, line.number] = Evidence(
                file=line.file, line=line.number, text=_quote(line, mask), role=role
            )
    return tuple(found.values())


def _evidence(
    verdict: Verdict,
    lines: Sequence[Line],
    records: Sequence[ExceptionRecord],
    shape: Shape,
    mask: Callable[[str], str],
) -> tuple[Evidence, ...]:
    marked: list[tuple[int, Role]] = []
    if verdict.index is not None:
        marked.append((verdict.index, "root"))
    if verdict.hit is not None:
        marked.append((verdict.hit.index, "root"))
    if verdict.source == "metrics" and verdict.hit is not None:
        # A curve is proved by its stations: how it was, where it turned, what became of it.
        shown = ("first_report", "before_nonfinite", "event", "best_validation", "last_validation", "last_report")
        marked += ((shape.anchors[name], "context") for name in shown if name in shape.anchors)
    marked += ((hit.index, "root" if hit.role == "root" else "context") for hit in verdict.supporting)
    chosen = list(_quotes(marked, lines, mask)[:EVIDENCE_LINES])
    if verdict.incident and verdict.incident.records:
        record = records[verdict.incident.records[0]]
        if (index := _own_code(record, lines)) is not None:
            chosen += _quotes([(index, "context")], lines, mask)
    unique = {(e.file, e.line): e for e in reversed(chosen)}
    return tuple(sorted(unique.values(), key=lambda e: (e.file or "", e.line)))


def _own_code(record: ExceptionRecord, lines: Sequence[Line]) -> int | None:
    """The line of the deepest frame that is not in an installed package: where the reader's own program stood."""
    library = ("site-packages", "dist-packages", "/lib/python", "\\lib\\", "<frozen", "<string>")
    for frame in reversed(record.frames):
        if frame.file and not any(part in frame.file for part in library):
            for index in reversed(record.members):
                if frame.file in lines[index].text and (frame.line is None or str(frame.line) in lines[index].text):
                    return index
    return None


def _first_failure(
    verdict: Verdict,
    lines: Sequence[Line],
    records: Sequence[ExceptionRecord],
    whole_job: bool,
    mask: Callable[[str], str],
) -> FirstFailure | None:
    if verdict.index is None:
        return None
    line = lines[verdict.index]
    # The time of the failure, not of whatever its process said last: none where neither line nor traceback has one.
    time = line.time
    for number in verdict.incident.records if verdict.incident and time is None else ():
        time = time or next((lines[index].time for index in records[number].members if lines[index].time), None)
    return FirstFailure(
        file=line.file,
        line=line.number,
        rank=failing_rank(
            lines, verdict.incident, verdict.index, verdict.hit, verdict.supporting, of_a_rank=not whole_job
        ),
        host=line.host and mask(line.host),
        time=time.isoformat() if time and dated(time) else None,
        text=_quote(line, mask),
    )


def _exception(
    verdict: Verdict, records: Sequence[ExceptionRecord], mask: Callable[[str], str]
) -> dict[str, Any] | None:
    if verdict.incident is None or not verdict.incident.records:
        return None
    chain = [records[number] for number in verdict.incident.records]
    record = records[verdict.hit.exception] if verdict.hit and verdict.hit.exception is not None else chain[0]
    return {
        "type": mask(record.type),
        "message": mask(record.message)[:4_000],
        "frames": [
            {
                "file": mask(f.file),
                "line": f.line,
                "function": f.function and mask(f.function),
                "code": f.code and mask(f.code),
            }
            for f in record.frames[-50:]
        ],
        "chain": [
            {"type": mask(other.type), "message": mask(other.message)[:1_000], "link": other.link}
            for other in chain
            if other is not record
        ],
    }
