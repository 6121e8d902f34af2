"""Prefixes that launchers, schedulers and loggers put in front of a line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwreck.reading.prefixes import UNKNOWN_DAY, UNKNOWN_YEAR, level_name, read_time, split_prefix

FRAME = '  File "train.py", line 7, in step'

# line, message, and what else is expected of the prefix
PEELED: list[tuple[str, str, dict[str, Any]]] = [
    # launchers
    (f"[rank3]: {FRAME}", FRAME, {"rank": 3, "speaker": "rank3"}),
    ("[rank12]: Traceback (most recent call last):", "Traceback (most recent call last):", {"rank": 12}),
    (f"[default1]:{FRAME}", FRAME, {"rank": None, "local_rank": 1, "speaker": "default1"}),
    ("[default1]: hello", "hello", {"local_rank": 1}),
    (f"[default1]:[rank9]: {FRAME}", FRAME, {"rank": 9, "local_rank": 1, "speaker": "default1/rank9"}),
    ("[trainer8|0]:ncclInternalError: x", "ncclInternalError: x", {"rank": 8, "local_rank": 0}),
    ("[trainer-1:9]:x", "x", {"rank": 9, "local_rank": 1}),
    ("[node-12:0]: lost", "lost", {"rank": None, "local_rank": 0, "host": "node-12"}),
    ("[0]: hello", "hello", {"rank": None, "local_rank": 0}),
    ("[rank: 2] Seed set to 42", "Seed set to 42", {"rank": 2}),
    (f"[1,3]<stderr>:{FRAME}", FRAME, {"rank": 3}),
    ("[2]<stdout>:epoch 4", "epoch 4", {"rank": 2}),
    ("trainer/3 [1]:hello", "hello", {"rank": None, "local_rank": 1, "speaker": "trainer/3/local1"}),
    (f"3: {FRAME}", FRAME, {"rank": 3}),
    (" 6: [rank6]:     return x", "    return x", {"rank": 6, "speaker": "rank6"}),
    ("node-b7: 3:     loss.backward()", "    loss.backward()", {"rank": 3, "host": "node-b7"}),
    (f"node1: {FRAME}", FRAME, {"host": "node1", "rank": None}),
    ("10.1.2.3: [rank0]: x", "x", {"host": "10.1.2.3", "rank": 0}),
    ("rank 4: WorkNCCL(SeqNum=3)", "WorkNCCL(SeqNum=3)", {"rank": 4}),
    ("[80747] [rank4]: boom", "boom", {"rank": 4}),
    # process groups and NCCL
    (
        "[rank1]:[E1130 12:00:00.123456789 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective",
        "[Rank 1] Watchdog caught collective",
        {"rank": 1, "level": "ERROR", "time": datetime(UNKNOWN_YEAR, 11, 30, 12, 0, 0, 123456)},
    ),
    ("[rank0]:[W505 ProcessGroupNCCL.cpp:1496] Warning: x", "Warning: x", {"rank": 0, "level": "WARNING"}),
    ("[E ProcessGroupNCCL.cpp:737] [Rank 3] Watchdog", "[Rank 3] Watchdog", {"rank": 3, "speaker": ""}),
    (
        "[rank201]:[E ProcessGroupNCCL.cpp:1785] [PG ID 42 PG GUID 251(PIPELINE_MODEL_PARALLEL_GROUP) Rank 9] failure",
        "[PG ID 42 PG GUID 251(PIPELINE_MODEL_PARALLEL_GROUP) Rank 9] failure",
        {"rank": 201},
    ),
    (
        "gpu-48:34050:34121 [3] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event",
        "transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event",
        {"host": "gpu-48", "local_rank": 3, "rank": None, "speaker": "gpu-48:34050"},
    ),
    ("[1] misc/ibvwrap.cc:252 NCCL WARN Call failed", "misc/ibvwrap.cc:252 NCCL WARN Call failed", {"local_rank": 1}),
    # Ray, vLLM, containers
    (f"(RayTrainWorker pid=744, ip=10.0.0.1) {FRAME}", FRAME, {"host": "10.0.0.1", "rank": None}),
    ("(raylet) A worker died", "A worker died", {"speaker": "raylet"}),
    (
        f"(EngineCore_DP0 pid=12) ERROR 01-01 12:00:00 [core.py:12] {FRAME}",
        FRAME,
        {"level": "ERROR", "speaker": "EngineCore_DP0 pid=12"},
    ),
    (f"(VllmWorker rank=1 pid=7) ERROR {FRAME}", FRAME, {"rank": 1, "level": "ERROR"}),
    ("ERROR 11-18 18:07:28 engine.py:366]     raise ValueError(", "    raise ValueError(", {"level": "ERROR"}),
    ("worker-1  | Starting entrypoint...", "Starting entrypoint...", {"speaker": "worker-1"}),
    (
        "2025-03-01T04:22:51.220100341Z stderr F torch.OutOfMemoryError: CUDA out of memory",
        "torch.OutOfMemoryError: CUDA out of memory",
        {"time": datetime(2025, 3, 1, 4, 22, 51, 220100, UTC)},
    ),
    ("[pod/trainer-0/pytorch] hello", "hello", {"host": "trainer-0"}),
    ("pod/trainer-0: hello", "hello", {"host": "trainer-0"}),
    ("trainer-0 pytorch [rank0]: hello", "hello", {"host": "trainer-0", "rank": 0}),
    ("build\tRun tests\t2024-05-01T12:00:00.1234567Z ##[error]failed", "failed", {"level": "ERROR"}),
    # loggers
    (
        "worker-0: [2024-01-01 00:00:00,123] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 1",
        "Killing subprocess 1",
        {"host": "worker-0", "level": "INFO", "time": datetime(2024, 1, 1, 0, 0, 0, 123000)},
    ),
    (
        "[2023-01-01 00:00:00,871] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=2",
        "[Rank 0] step=10, skipped=2",
        {"rank": 0},
    ),
    ("E1130 12:00:00.123456 1234 api.py:12] failed (exitcode: -9)", "failed (exitcode: -9)", {"level": "ERROR"}),
    ("F0318 21:09:12.604471  7110 layer.cpp:101] Check failed: x", "Check failed: x", {"level": "CRITICAL"}),
    ("2018-05-10 09:14:16.534978: I tensorflow/core/x.cc:661] Chunk", "Chunk", {"level": "INFO"}),
    ("2024-01-01 12:00:00,123 - my.module - ERROR - it broke", "it broke", {"level": "ERROR"}),
    (
        "09/14/2023 03:11:00 - WARNING - accelerate.optimizer - skipped",
        "skipped",
        {"time": datetime(2023, 9, 14, 3, 11)},
    ),
    ("ERROR:torch.distributed.elastic.api:failed", "failed", {"level": "ERROR"}),
    ("[ERROR|trainer.py:123] 2024-01-01 12:00:00,123 >> it broke", "it broke", {"level": "ERROR"}),
    ("2024-01-01 12:00:00.123 | ERROR    | my.module:run:12 - it broke", "it broke", {"level": "ERROR"}),
    ("2022-02-17 06:44:31 | INFO | train_inner | epoch 1", "epoch 1", {"level": "INFO"}),
    ("2024-01-01 07:28:24,482.482 INFO hello", "hello", {"time": datetime(2024, 1, 1, 7, 28, 24, 482000)}),
    ("[2023-02-08 13:31:44,870][trainer][ERROR] - hello", "hello", {"level": "ERROR"}),
    ("[2025-09-11 00:11:09,810] [    INFO] - loss: 1.12", "loss: 1.12", {"level": "INFO"}),
    ("[03/12 00:28:34 d2.engine.train_loop]: Starting", "Starting", {"time": datetime(UNKNOWN_YEAR, 3, 12, 0, 28, 34)}),
    ("[2025-04-03 22:01:46 TP0] Scheduler hit an exception", "Scheduler hit an exception", {"speaker": "TP0"}),
    ("[2024-04-11 03:22:48,113] torch.distributed.api: [ERROR] failed", "failed", {"level": "ERROR"}),
    ("[NeMo W 2024-03-02 11:20:10 nemo_logging:349] hello", "hello", {"level": "WARNING"}),
    ("2022-05-04 10:10:13,210\tWARNING tune.py:747 -- stopped", "stopped", {"level": "WARNING"}),
    ("2024-02-26T12:09:41.112Z  INFO text_generation: up", "text_generation: up", {"level": "INFO"}),
    ("2023-01-20 04:44:41,703 INFO [train.py:904] (5/8) Epoch 17", "Epoch 17", {"rank": 5}),
    ("[ERROR] 2024-07-02-09:11:50 (PID:11, Device:4, RankID:12) ERR00100", "ERR00100", {"rank": 12}),
    ("[16:05:32] step=2 loss=11.8", "step=2 loss=11.8", {"time": datetime(UNKNOWN_DAY.year, 1, 1, 16, 5, 32)}),
    ("2024-01-01T12:00:00+02:00 hello", "hello", {}),
    ("1700000000.25 hello", "hello", {"time": datetime.fromtimestamp(1700000000.25, UTC)}),
    (" [2023-10-22 23:53:08] iteration  200/ 832 | lm loss: 6.4", "iteration  200/ 832 | lm loss: 6.4", {}),
    ("【2023-07-09 22:14:41】 main()", "main()", {"time": datetime(2023, 7, 9, 22, 14, 41)}),
    ("E       RuntimeError: x", "RuntimeError: x", {}),
    # the kernel
    ("[12345.678901] NVRM: Xid (PCI:0000:41:00): 79", "NVRM: Xid (PCI:0000:41:00): 79", {"time": None}),
    (
        "Nov 30 12:00:00 gpu-b07 kernel: [12345.678] NVRM: Xid (PCI:0000:41:00): 79",
        "NVRM: Xid (PCI:0000:41:00): 79",
        {"host": "gpu-b07", "time": datetime(UNKNOWN_YEAR, 11, 30, 12)},
    ),
    ("[Mon Sep  2 05:43:14 2024] NVRM: Xid", "NVRM: Xid", {"time": datetime(2024, 9, 2, 5, 43, 14)}),
    ("Nov 30 12:00:00 gpu-b07 slurmstepd[89]: error: *** STEP", "slurmstepd[89]: error: *** STEP", {"host": "gpu-b07"}),
]

UNTOUCHED = [
    "ValueError: x",
    "torch.cuda.OutOfMemoryError: CUDA out of memory",
    "CUDA error: device-side assert triggered",
    "Error: something",
    "ERROR: Could not find a version that satisfies the requirement",
    "Exception in thread Thread-1:",
    "Loss: 2.3",
    "Epoch: 3",
    "f1: 0.93",
    "top1: 77.2 top5: 93.1",
    "step 310 | loss: 5.1",
    "epoch-1 | loss 3",
    "0 | backbone | ResNet | 23.5 M",
    "[200]\ttraining's auc: 0.931",
    "[2100] grad_norm=0.79, loss=3.38",
    "[12/200][350/782] Loss_D: 0.8011",
    "[epoch=4]:",
    "[Errno 28] No space left on device",
    "{'loss': 2.3, 'grad_norm': 1.2}",
    '{"step": 1, "loss": NaN}',
    " 14%|█▍        | 379/2724 [14:00:21<86:09:52, 132.28s/it]",
    "1300/1563 [=======>......] - ETA: 1:40 - loss: 0.69",
    "0:\tlearn: 0.69\ttest: 0.68",
    "120, 0.39119, 0.27383",
    FRAME,
    "    loss.backward()",
    "libmpi.so.12: cannot open shared object file",
    "mlx5_core 0000:c1:00.0: print_health_info:431: assert_var[0]",
    "nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 12028",
    "EI0002: The wait execution of the Notify register times out",
    "slurmstepd: error: *** JOB 330112 CANCELLED ***",
    "ray::train() (pid=12, ip=10.0.0.1)",
    "(most recent call last)",
    "gpt-2: loading",
    "",
]


@pytest.mark.parametrize(("line", "message", "expected"), PEELED, ids=[line[:40] for line, _, _ in PEELED])
def test_prefix_is_set_aside(line: str, message: str, expected: dict[str, Any]) -> None:
    prefix = split_prefix(line)
    assert prefix.text == message
    assert {name: getattr(prefix, name) for name in expected} == expected


@pytest.mark.parametrize("line", UNTOUCHED)
def test_message_is_not_eaten(line: str) -> None:
    prefix = split_prefix(line)
    assert prefix.text == line
    assert (prefix.rank, prefix.local_rank, prefix.host, prefix.time, prefix.speaker) == (None, None, None, None, "")


def test_level_is_read_from_a_message_that_keeps_it() -> None:
    assert split_prefix("ERROR: Could not find a version").level == "ERROR"


def test_task_labels_can_be_ruled_out() -> None:
    assert split_prefix("3: loss 2.1", labels=False).text == "3: loss 2.1"
    assert split_prefix("3: loss 2.1", labels=False).rank is None


def test_a_collectors_date_beats_a_loggers_clock() -> None:
    prefix = split_prefix("2024-07-02T20:14:33 worker-1 [rank2]:[E702 20:14:31 ProcessGroupNCCL.cpp:607] late")
    assert (prefix.text, prefix.host, prefix.rank) == ("late", "worker-1", 2)
    assert prefix.time == datetime(2024, 7, 2, 20, 14, 33)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-01-01T00:00:00Z", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-01-01 00:00:00,5", datetime(2024, 1, 1, 0, 0, 0, 500000)),
        (1704067200, datetime(2024, 1, 1, tzinfo=UTC)),
        (1704067200_000, datetime(2024, 1, 1, tzinfo=UTC)),
        ("1704067200.0", datetime(2024, 1, 1, tzinfo=UTC)),
        (3, None),
        (True, None),
        ("yesterday", None),
        (None, None),
        (float("nan"), None),
    ],
)
def test_times_of_structured_records(value: object, expected: datetime | None) -> None:
    assert read_time(value) == expected


def test_level_names() -> None:
    assert [level_name(word) for word in ("W", "warn", "Fatal", "E", "loud")] == [
        "WARNING",
        "WARNING",
        "CRITICAL",
        "ERROR",
        None,
    ]


@given(st.text(alphabet=st.sampled_from("[](){}|:;,.-0123456789EWIF rankode<>/=#\t日Z"), max_size=80))
def test_any_line_splits_and_its_message_is_its_end(line: str) -> None:
    prefix = split_prefix(line)
    assert line.endswith(prefix.text)
    assert prefix.rank is None or prefix.rank >= 0


def test_impossible_dates_and_huge_numbers_are_harmless() -> None:
    for line in (
        "[2024-13-45 99:99:99] x",
        "[Feb 31 2024 10:00:00] x",
        "[rank999999999999]: x",
        "0000-00-00 00:00:00 x",
    ):
        assert split_prefix(line).text.endswith("x")
