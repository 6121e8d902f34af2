"""Hits and exceptions → incidents in causal order.

An incident is one thing that went wrong in one process: a chain of exceptions with all that matched in it, or a line outside any
exception. Printed times decide the order where every incident has one; else the order of the log does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trainwreck.diagnosis import ExceptionRecord, Hit, Line
from trainwreck.tracebacks import root_of

__all__ = ["Incident", "dated", "failing_rank", "incidents"]

CARRY_LINES = 400
"""How far back a line without a time may look for one of its own process: a traceback has one stamp, if any, at its head."""
IGNORED = "Exception ignored in"
"""How CPython announces an exception that ends nothing, mostly while it shuts down."""
AFTER_LINES = 12
"""How far after a line without a prefix the process that printed it may be expected to speak."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that went wrong in one process."""

    index: int
    """Line where it shows first: the root exception's own line, or the line that matched."""
    records: tuple[int, ...]
    """Exception records of the chain, root first; empty outside exceptions."""
    hits: tuple[Hit, ...]
    """Matches in it, those in the root record first, then by line."""
    time: datetime | None
    by_time: bool
    """Whether printed times gave the order."""


def incidents(lines: Sequence[Line], records: Sequence[ExceptionRecord], hits: Sequence[Hit]) -> list[Incident]:
    """Return the incidents, earliest cause first. Hits of role `confirms` and `excludes` make none of their own."""
    chain_of = {number: root_of(records, number) for number in range(len(records))}
    chains: dict[int, list[int]] = {}
    for number, root in chain_of.items():
        if not lines[records[number].members[0]].text.startswith(IGNORED):
            chains.setdefault(root, []).append(number)
    in_chain: dict[int, list[Hit]] = {}
    alone: dict[int, list[Hit]] = {}
    for hit in hits:
        if hit.exception is not None and chain_of[hit.exception] not in chains:
            continue
        if hit.exception is not None:
            in_chain.setdefault(chain_of[hit.exception], []).append(hit)
        elif hit.role in ("root", "collateral"):
            alone.setdefault(hit.index, []).append(hit)
    found: list[tuple[int, tuple[int, ...], list[Hit]]] = []
    for root, members in chains.items():
        ordered = (root, *(member for member in members if member != root))
        rank = {member: place for place, member in enumerate(ordered)}
        inside = sorted(in_chain.get(root, ()), key=lambda hit: (rank[hit.exception or 0], hit.index))
        found.append((records[root].at, ordered, inside))
    found += [(index, (), own) for index, own in alone.items()]
    near = _times_near(lines, {index for index, _, _ in found})
    times = [near.get(index) for index, _, _ in found]
    comparable = _comparable(times, [lines[index].file for index, _, _ in found])
    made = [
        Incident(index=index, records=chain, hits=tuple(own), time=time, by_time=comparable)
        for (index, chain, own), time in zip(found, times, strict=True)
    ]
    if comparable:
        return sorted(made, key=lambda i: (i.time, i.index))
    return sorted(made, key=lambda i: i.index)


def _times_near(lines: Sequence[Line], wanted: set[int]) -> dict[int, datetime]:
    """For each wanted line its own time, or the last one that its process printed within `CARRY_LINES`."""
    last: dict[tuple[str | None, str], tuple[int, datetime]] = {}
    found: dict[int, datetime] = {}
    for index, line in enumerate(lines):
        if line.time is not None:
            last[line.file, line.speaker] = (index, line.time)
        if index in wanted and (seen := last.get((line.file, line.speaker))) and index - seen[0] <= CARRY_LINES:
            found[index] = seen[1]
    return found


def _comparable(times: Sequence[datetime | None], files: Sequence[str | None]) -> bool:
    """Whether all are there and of one kind: with a zone, without one, or (within one file only) without a date."""
    kinds = {
        None if time is None else (time.tzinfo is not None, None if dated(time) else (file or ""))
        for time, file in zip(times, files, strict=True)
    }
    return len(kinds) == 1 and None not in kinds


def dated(time: datetime) -> bool:
    """Whether the log printed a date with `time`; the reader marks clock times without one by an ancient year."""
    return time.year >= 1970


def failing_rank(
    lines: Sequence[Line],
    incident: Incident | None,
    index: int,
    hit: Hit | None,
    supporting: Sequence[Hit],
    of_a_rank: bool = True,
) -> int | None:
    """Return the global rank of the process in which the failure at line `index` happened, or None.

    In order of trust: what the deciding message says (the fact `failing_rank`: a barrier names the rank that did not come); the prefix of
    the line; other lines of the same incident; what a launcher says of its children; other lines of the same class; the local rank, by
    NCCL's own table or where the log shows one host only; the rank that speaks next after a line without a prefix (a kernel's assertion,
    the system's log); the only rank in the log.

    What happens to a job as a whole (`of_a_rank` false: a time limit, a preemption) has no rank but one that is printed or told.
    Of an echo the launcher knows more than the rank that heard it: that one is the victim.
    """
    here = lines[index]
    if (named := _told(hit)) is not None:
        return named
    echo = hit is not None and hit.role == "collateral"
    if here.rank is not None and not echo:
        return here.rank
    one_host = len({line.host for line in lines if line.host}) <= 1
    launcher = _launcher_names(lines, one_host)
    if echo and launcher is not None:
        return launcher
    if here.rank is not None:
        return here.rank
    for other in incident.hits if incident else ():
        if (rank := lines[other.index].rank) is not None:
            return rank
    if launcher is not None:
        return launcher
    for other in supporting:
        if (rank := lines[other.index].rank) is not None:
            return rank
        if (named := _told(other)) is not None:
            return named
    if not of_a_rank:
        return None
    if here.local_rank is not None:
        if (devices := _ranks_by_device(lines)) is not None:
            return devices.get((here.host, here.local_rank))
        if one_host:
            return here.local_rank
    for line in lines[index + 1 : index + 1 + AFTER_LINES]:
        if line.rank is not None and line.file == here.file and (here.host is None or line.host in (here.host, None)):
            return line.rank
    ranks = {line.rank for line in lines if line.rank is not None}
    if len(ranks) == 1 and (here.host is None or one_host):
        return ranks.pop()
    return None


_DEVICE = re.compile(r"rank (\d{1,6}) nranks (\d{1,6}) cudaDev (\d{1,3})")


def _ranks_by_device(lines: Sequence[Line]) -> dict[tuple[str | None, int], int] | None:
    """The global rank of each (host, device) as NCCL prints it when a communicator starts; None where it does not."""
    found: dict[tuple[str | None, int], int] = {}
    for line in lines:
        if "cudaDev" in line.text and (match := _DEVICE.search(line.text[:2_000])):
            found[line.host, int(match[3])] = int(match[1])
    return found or None


def _told(hit: Hit | None) -> int | None:
    for name, value in hit.facts if hit else ():
        if name == "failing_rank" and isinstance(value, int):
            return value
    return None


_ROOT_CAUSE = "Root Cause (first observed failure)"
_SUMMARY_RANK = re.compile(r"\s*rank\s*:\s*(\d{1,6})\b")
# What each launcher says of the child that it saw die; the first group is its rank. Wordings: torch/distributed/elastic,
# deepspeed/launcher/launch.py, torch/multiprocessing/spawn.py (local ranks); paddle/distributed/launch, slurm src/srun,
# openmpi orterun, jax/_src/distributed.py (global ones).
_LOCAL_CHILD = (
    re.compile(r"\(exitcode: -?\d+\) local_rank: (\d{1,6})\b"),
    re.compile(r"--local[_-]rank=(\d{1,6})'.{0,4000}exits with return code"),
    re.compile(r"[Pp]rocess (\d{1,6}) terminated with"),
)
_GLOBAL_CHILD = (
    re.compile(r"Container rank (\d{1,6}) status failed"),
    re.compile(r"(?:srun: )?error: \S{1,200}: tasks? (\d{1,6})(?:[,-][\d,-]{1,80})?: (?!Terminated)[A-Z]"),
    re.compile(r"Process name: \[\[\d{1,9},\d{1,9}\],(\d{1,6})\]"),
    re.compile(r"^/job:\w{1,40}/(?:replica:\d{1,6}/)?task:(\d{1,6})\b"),
)
_CHILD_WORDS = ("exitcode", "return code", "rocess ", "Container rank", "error: ", "Process name", "/job:")


def _launcher_names(lines: Sequence[Line], one_host: bool) -> int | None:
    child: int | None = None
    for index in range(len(lines) - 1, -1, -1):
        text = lines[index].text
        if _ROOT_CAUSE in text:
            for line in lines[index + 1 : index + 12]:
                if match := _SUMMARY_RANK.match(line.text):
                    return int(match[1])
        elif any(word in text for word in _CHILD_WORDS):
            for pattern in _GLOBAL_CHILD + _LOCAL_CHILD if one_host else _GLOBAL_CHILD:
                if match := pattern.search(text[:8_000]):
                    child = int(match[1])  # the earliest of them stays: it was seen to die first
    return child
