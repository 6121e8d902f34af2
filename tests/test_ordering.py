from datetime import UTC, datetime, timedelta

from conftest import make_entry, make_fingerprint, make_taxonomy
from trainwreck import tracebacks
from trainwreck.diagnosis import Hit, Line
from trainwreck.ordering import failing_rank, incidents
from trainwreck.scanning import Scanner

START = datetime(2026, 4, 12, 2, 0, tzinfo=UTC)
CHAIN = """\
Traceback (most recent call last):
  File "a.py", line 3, in load
    open(path)
OSError: the inner one

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "a.py", line 9, in main
    load()
RuntimeError: the outer one"""


def order(lines, *patterns):
    records = tracebacks.parse(lines)
    taxonomy = make_taxonomy(make_entry("a", *(make_fingerprint("a", p) for p in patterns)))
    return incidents(lines, records, Scanner(taxonomy).hits(lines, records)), records


def line(number, text, **fields):
    return Line(number=number, text=text, quote=text, **fields)


def test_a_chain_is_one_incident_that_stands_at_its_inner_exception(as_lines):
    found, records = order(as_lines(CHAIN), "the outer one", "the inner one")
    assert len(found) == 1
    assert found[0].index == 3
    assert [records[n].type for n in found[0].records] == ["OSError", "RuntimeError"]
    assert [h.index for h in found[0].hits] == [3, 10]


def test_an_exception_that_is_ignored_at_shutdown_is_no_incident(as_lines):
    text = "Exception ignored in: <function Loader.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    text += '  File "a.py", line 3, in __del__\nAssertionError: can only test a child process'
    found, records = order(as_lines(text), "can only test")
    assert len(records) == 1
    assert found == []


def test_printed_times_beat_the_order_of_the_file():
    lines = [
        line(1, "launcher: second failure", time=START + timedelta(seconds=9), speaker="b"),
        line(2, "first failure", time=START, speaker="a"),
    ]
    found, _ = order(lines, "first failure", "second failure")
    assert [i.index for i in found] == [1, 0]
    assert all(i.by_time for i in found)


def test_times_without_a_zone_are_not_compared_with_times_that_have_one():
    lines = [
        line(1, "second failure", time=START + timedelta(seconds=9)),
        line(2, "first failure", time=START.replace(tzinfo=None)),
    ]
    found, _ = order(lines, "first failure", "second failure")
    assert [i.index for i in found] == [0, 1]
    assert not any(i.by_time for i in found)


def test_a_line_without_a_time_takes_the_last_one_of_its_own_process():
    lines = [
        line(1, "rank 1 reports", time=START + timedelta(seconds=30), speaker="rank1"),
        line(2, "rank 0 reports", time=START, speaker="rank0"),
        line(3, "failure of one", speaker="rank1"),
        line(4, "failure of nought", speaker="rank0"),
    ]
    found, _ = order(lines, "failure of one", "failure of nought")
    assert [i.index for i in found] == [3, 2]


def hit(index, *facts):
    return Hit(label="a", fingerprint="a/x", role="root", specific=True, index=index, facts=facts)


def rank_of(lines, index=0, decisive=None, supporting=()):
    return failing_rank(lines, None, index, decisive, supporting)


def test_what_the_message_says_beats_the_prefix_and_that_beats_other_messages():
    lines = [line(1, "x", rank=3), line(2, "y", rank=4)]
    assert rank_of(lines, decisive=hit(0, ("failing_rank", 5))) == 5
    assert rank_of(lines, supporting=[hit(1, ("failing_rank", 5))]) == 3
    assert rank_of([line(1, "x"), line(2, "y", rank=4), line(3, "z", rank=7)], supporting=[hit(2)]) == 7


def test_a_kernel_assertion_without_prefix_belongs_to_the_rank_that_speaks_next():
    assert rank_of([line(1, "Assertion failed"), line(2, "."), line(3, "CUDA error", rank=11, speaker="rank11")]) == 11


def test_a_launchers_root_cause_names_the_rank_and_not_its_list_of_other_failures(as_lines):
    summary = as_lines(
        "it died\nFailures:\n[1]:\n  rank      : 1 (local_rank: 1)\n------\n"
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-04-12_02:22:44\n  rank      : 2 (local_rank: 2)"
    )
    assert rank_of(summary) == 2


def test_other_launchers_name_the_child_that_died(as_lines):
    assert rank_of(as_lines("x\nfailed (exitcode: -9) local_rank: 5 (pid: 2630) of binary: /usr/bin/python")) == 5
    assert rank_of(as_lines("x\n['python', 'main.py', '--local_rank=4', '--z', '3'] exits with return code = -9")) == 4
    assert rank_of(as_lines("x\n-- Process 1 terminated with the following error:")) == 1
    assert rank_of(as_lines("x\nsrun: error: gpu-044: task 21: Out Of Memory")) == 21
    assert rank_of(as_lines("x\nsrun: error: gpu-044: tasks 0-7: Terminated")) is None
    assert rank_of(as_lines("x\n  Process name: [[41288,1],5]")) == 5
    assert rank_of(as_lines("x\nSome timed out task names:\n/job:jax_worker/replica:0/task:9")) == 9


def test_the_only_rank_of_a_log_is_the_one_that_failed():
    lines = [line(1, "step 1", rank=6), *(line(n, ".") for n in range(2, 30)), line(30, "it died")]
    assert rank_of(lines, index=29) == 6
    assert rank_of([line(1, "step 1", rank=5), *lines], index=30) is None


def test_a_local_rank_is_a_global_one_on_a_single_host_only():
    one = [line(1, "x", local_rank=2, host="a")]
    assert rank_of(one) == 2
    assert rank_of([*one, line(2, "y", local_rank=2, host="b")]) is None


def test_a_launchers_local_rank_is_no_global_one_where_there_are_several_hosts():
    said = line(3, "failed (exitcode: -9) local_rank: 3 (pid: 2630) of binary: /usr/bin/python", host="node1")
    assert rank_of([line(1, "x"), said]) == 3
    assert rank_of([line(1, "x"), line(2, "y", host="node0"), said]) is None


def test_nccl_tells_which_rank_sits_on_a_device():
    start = line(1, "comm 0x1 rank 27 nranks 32 cudaDev 3 busId 9b000 - Init COMPLETE", host="node07", local_rank=3)
    assert rank_of([line(2, "NCCL WARN x", host="node07", local_rank=3), start]) == 27
    assert rank_of([line(2, "NCCL WARN x", host="node07", local_rank=2), start]) is None


def test_the_rank_of_another_host_is_not_taken_for_that_of_a_line_without_one():
    lines = [line(1, "it died", host="trainer-3"), line(2, "a warning", host="trainer-0", rank=0)]
    assert rank_of(lines) is None


def test_where_nothing_tells_the_rank_there_is_none(as_lines):
    assert rank_of(as_lines("it died")) is None
