import pytest

from trainwreck.collectives import features, pending
from trainwreck.reading.text import read_lines


def watchdog(rank, sequence, operation="ALLREDUCE", size=1024, group=None):
    said = f"[PG ID {group} PG GUID {group}(default_pg) Rank {rank}]" if group is not None else f"[Rank {rank}]"
    return (
        f"[rank{rank}]:[E1130 12:00:00.123456789 ProcessGroupNCCL.cpp:616] {said} Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn={size}, NumelOut={size}, Timeout(ms)=600000) ran for 600031 milliseconds"
    )


def judged(*rows):
    lines = read_lines("\n".join(rows))
    found, anchors = features(lines)
    return found.get("ranks_disagree"), anchors.get("disagreement")


def test_a_watchdog_line_tells_rank_group_sequence_operation_and_size():
    (one,) = pending(read_lines("step 1\n" + watchdog(3, 4188, size=26214400, group=7)))
    assert (one.rank, one.group, one.sequence, one.operation, one.size, one.index) == (
        3, "7/7", 4188, "ALLREDUCE", (26214400, 26214400), 1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([watchdog(0, 7), watchdog(1, 7), watchdog(2, 7)], (0.0, None)),
        ([watchdog(0, 7), watchdog(1, 7), watchdog(2, 7, "_ALLGATHER_BASE")], (1.0, 2)),
        ([watchdog(0, 7, size=8), watchdog(1, 7), watchdog(2, 7)], (1.0, 0)),
        ([watchdog(0, 7), watchdog(1, 8, "BROADCAST")], (0.0, None)),
        ([watchdog(0, 7, group=0), watchdog(1, 7, "BROADCAST", group=3)], (0.0, None)),
        ([watchdog(0, 7, "ALLTOALL_BASE", 8), watchdog(1, 7, "ALLTOALL_BASE", 16)], (0.0, None)),
        (["nothing of the kind"], (None, None)),
    ],
    ids=["agree", "another operation", "another size", "another sequence", "another group", "uneven by nature", "none"],
)
def test_ranks_disagree_only_within_one_group_and_sequence(rows, expected):
    assert judged(*rows) == expected
