"""Which collective each rank was in when its watchdog gave up, and whether the ranks agree.

One line cannot show a mismatch: every rank reports a timeout. Side by side, one of them waits in another operation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from trainwreck.diagnosis import Line

__all__ = ["Pending", "features", "pending"]

# torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: WorkNCCL as the watchdog prints it, since 1.13. HCCL's backend uses the same form.
_WORK = re.compile(
    r"Work(?:NCCL|HCCL|XCCL|UCC|Gloo)\(SeqNum=(?P<sequence>\d{1,18}), OpType=(?P<operation>\w{1,40})"
    r"(?:, NumelIn=(?P<given>\d{1,18}), NumelOut=(?P<taken>\d{1,18}))?"
)
_GROUP = re.compile(r"PG (?:ID (\d{1,9}) PG )?GUID (\d{1,18})")
# Operations whose sizes may differ between ranks.
_UNEVEN = re.compile(r"ALL_?TO_?ALL|SCATTER|^GATHER|BROADCAST_OOP")
_BETWEEN_TWO = re.compile(r"SEND|RECV|COALESCED")
"""Operations that two ranks do differently by nature."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A collective that a rank reports as not completed."""

    rank: int
    group: str
    """Process group as printed; `""` before PyTorch printed it."""
    sequence: int
    operation: str
    size: tuple[int, int] | None
    """Elements given and taken; None where not printed, or where ranks may differ."""
    index: int
    """Index of the line."""


def pending(lines: Sequence[Line]) -> list[Pending]:
    """Return every collective that a watchdog line reports with its rank, in order of the lines."""
    found = []
    for index, line in enumerate(lines):
        if line.rank is None or "(SeqNum=" not in line.text:
            continue
        if (match := _WORK.search(line.text[:4_000])) and not _BETWEEN_TWO.search(match["operation"]):
            group = _GROUP.search(line.text[:4_000])
            uneven = match["given"] is None or _UNEVEN.search(match["operation"])
            found.append(
                Pending(
                    rank=line.rank,
                    group=f"{group[1] or ''}/{group[2]}" if group else "",
                    sequence=int(match["sequence"]),
                    operation=match["operation"],
                    size=None if uneven else (int(match["given"]), int(match["taken"])),
                    index=index,
                )
            )
    return found


def features(lines: Sequence[Line]) -> tuple[dict[str, float], dict[str, int]]:
    """Return (features, anchors) for conditions in the taxonomy, as `metrics.shape` has them.

    `ranks_disagree` is 1 where ranks of one group at one sequence number are in different operations or sizes; the anchor
    `disagreement` is the line of the first rank of the smallest party. Both are absent when no rank reports a collective.
    """
    at: defaultdict[tuple[str, int], dict[int, Pending]] = defaultdict(dict)
    reported = pending(lines)
    for one in reported:
        at[one.group, one.sequence].setdefault(one.rank, one)
    for ranks in at.values():
        parties: defaultdict[tuple[str, tuple[int, int] | None], list[Pending]] = defaultdict(list)
        for one in ranks.values():
            parties[one.operation, one.size].append(one)
        if len(parties) > 1:
            smallest = min(parties.values(), key=len)
            # Without a group, ranks of several groups may share a number: then only one against many says anything.
            if not smallest[0].group and (len(smallest) > 1 or len(ranks) < 3):
                continue
            return {"ranks_disagree": 1.0}, {"disagreement": smallest[0].index}
    return ({"ranks_disagree": 0.0}, {}) if reported else ({}, {})
