"""Bytes of a log become lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwreck.reading.prefixes import UNKNOWN_YEAR
from trainwreck.reading.text import clean, decode, read_lines


def texts(data: bytes | str) -> list[str]:
    return [line.text for line in read_lines(data)]


# --- characters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_encodings(encoding: str) -> None:
    log = "Traceback (most recent call last):\nValueError: größer als 3\n" * 3
    assert decode(log.encode(encoding)) == log


def test_windows_text_is_read_and_one_bad_byte_does_not_spoil_utf8() -> None:
    assert decode("Datei nicht gefunden: Größe\n".encode("cp1252")) == "Datei nicht gefunden: Größe\n"
    assert decode("größer, größer, größer".encode() + b"\xff") == "größer, größer, größer\ufffd"


def test_nuls_are_dropped() -> None:
    assert decode(b"loss\x00\x00: 2.3\n" + b"x" * 50) == "loss: 2.3\n" + "x" * 50


def test_clean_leaves_what_is_printed() -> None:
    raw = "\x1b[1;31mError\x1b[0m\x1b]0;title\x07 \x1b]8;;http://x\x1b\\link\x07\tb\x08\u202eevil\u200b\xa0x\x9b2J\x85"
    assert clean(raw) == "Error link\tb" + "evil x"


@given(st.text())
def test_clean_is_idempotent_where_no_escape_is_left(text: str) -> None:
    cleaned = clean(text)
    assert not any(ord(char) < 32 and char not in "\t\n" for char in cleaned)
    assert clean(cleaned) == cleaned
    assert cleaned.count("\n") == text.count("\n")


# --- lines -----------------------------------------------------------------------------------------------------------


def test_numbers_count_line_feeds_only() -> None:
    lines = read_lines("a\r\nb\x0bc\x0c\u2028d\r\n\r\ne", first_number=10)
    assert [(line.number, line.text) for line in lines] == [(10, "a"), (11, "bcd"), (12, ""), (13, "e")]


def test_hints_hold_where_a_line_does_not_say_otherwise() -> None:
    lines = read_lines("x\n[rank3]: y\n", file="a.log", rank=1, local_rank=0, host="n1")
    assert [(line.file, line.rank, line.local_rank, line.host) for line in lines] == [
        ("a.log", 1, 0, "n1"),
        ("a.log", 3, 0, "n1"),
    ]
    assert lines[1].quote == "[rank3]: y"


def test_blank_runs_are_cut() -> None:
    lines = read_lines("a" + "\n" * 50 + "b")
    assert [(line.number, line.text) for line in lines] == [(1, "a"), (2, ""), (3, ""), (4, ""), (51, "b")]


def test_a_long_line_keeps_head_and_tail() -> None:
    (line,) = read_lines("first " + "x" * 1_000_000 + " last")
    assert line.text.startswith("first ")
    assert line.text.endswith(" last")
    assert len(line.text) < 10_100


def test_year_and_day_come_from_the_log() -> None:
    log = "E1130 12:00:00.5 1 a.cc:1] x\n[2023-11-30 12:00:01] y\n[23:59:59] z\n[00:00:01] w\n"
    assert [line.time for line in read_lines(log)] == [
        datetime(2023, 11, 30, 12, 0, 0, 500000),
        datetime(2023, 11, 30, 12, 0, 1),
        datetime(2023, 11, 30, 23, 59, 59),
        datetime(2023, 12, 1, 0, 0, 1),
    ]
    (alone,) = read_lines("E1130 12:00:00.5 1 a.cc:1] x")
    assert alone.time == datetime(UNKNOWN_YEAR, 11, 30, 12, 0, 0, 500000)


# --- progress bars ---------------------------------------------------------------------------------------------------


def test_a_bar_drawn_a_thousand_times_keeps_first_and_last() -> None:
    bar = "\r".join(f"{i / 10:3.0f}%|██▌   | {i}/1000 [00:{i % 60:02d}<04:22,  1.92s/it]" for i in range(1, 1001))
    kept = read_lines(bar + "\n")
    assert [line.quote.split("| ")[1].split(" ")[0] for line in kept] == ["1/1000", "1000/1000"]
    assert {line.number for line in kept} == {1}


def test_a_bar_keeps_the_states_that_say_something_new() -> None:
    states = [f" 5%|▌ | {i}/1000 [00:11<04:22, 1.92s/it, loss=2.{i // 100}]" for i in range(1000)]
    states[700] = states[700].replace("loss=2.7", "loss=nan")
    states[800] += "CUDA error: device-side assert"
    said = texts("\r".join(states))
    assert any("loss=nan" in text for text in said)
    assert "CUDA error: device-side assert" in said
    assert sum("loss=2.3" in text for text in said) == 1
    assert len(said) < 20


def test_a_bar_with_ever_new_metrics_is_thinned() -> None:
    row = "\r".join(f" 5%|▌ | {i}/9999 [00:11<04:22, 1.92s/it, loss={i}.5]" for i in range(9999))
    assert 200 < len(read_lines(row)) < 600


def test_what_is_glued_to_a_bar_is_a_line_of_its_own() -> None:
    log = " 14%|█▍ | 378/2724 [13:58:09<86:18:35, 132.44s/it][2023-06-07 22:16:00,018] [INFO] [x.py:1:f] OVERFLOW!\n"
    bar, message = read_lines(log)
    assert bar.text.endswith("132.44s/it]")
    assert (message.text, message.level, message.number) == ("OVERFLOW!", "INFO", 1)
    assert texts("  1%|  | 1/9 [00:01<00:08,  1.1it/s] Epoch 3\n") == ["  1%|  | 1/9 [00:01<00:08,  1.1it/s] Epoch 3"]


def test_what_another_process_glued_on_is_a_line_of_its_own() -> None:
    lines = read_lines("[rank0]: loading shards...[rank1]: Traceback (most recent call last):\n")
    assert [(line.rank, line.text) for line in lines] == [
        (0, "loading shards..."),
        (1, "Traceback (most recent call last):"),
    ]
    assert texts("done.Traceback (most recent call last):") == ["done.", "Traceback (most recent call last):"]
    one = "Scheduler hit an exception: Traceback (most recent call last):"
    assert texts(one) == [one]


def test_redrawing_escapes_and_backspaces_part_states() -> None:
    assert texts("10%\x1b[1Gdone") == ["10%", "done"]
    assert texts(" 1/2 [=>..]" + "\x08" * 11 + " 2/2 [====]\n") == [" 1/2 [=>..]", " 2/2 [====]"]
    assert texts("\x1b[01m\x1b[Ka.cpp:1:\x1b[m\x1b[K error") == ["a.cpp:1: error"]


# --- what was put around a log ---------------------------------------------------------------------------------------

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
  File "train.py", line 9, in main
    model(batch)
RuntimeError: sizes differ"""


@pytest.mark.parametrize("mark", ["> ", ">> "])
def test_quote_marks(mark: str) -> None:
    quoted = "\n".join(mark + row for row in TRACEBACK.split("\n"))
    lines = read_lines(quoted)
    assert [line.text for line in lines] == TRACEBACK.split("\n")
    assert lines[0].quote == f"{mark}Traceback (most recent call last):"


def test_messages_that_begin_with_an_angle_bracket_stay() -> None:
    assert texts("a\nb\n> initializing\nc\nd\n")[2] == "> initializing"


@pytest.mark.parametrize("column", ["{:4d}: ", "{:6d}\t", "{} | "])
def test_line_number_columns(column: str) -> None:
    rows = TRACEBACK.split("\n")
    assert texts("\n".join(column.format(118 + i) + row for i, row in enumerate(rows)))[-1] == rows[-1]


def test_a_table_of_epochs_keeps_its_first_column() -> None:
    table = [f"{i}         1.204511    1.955480    0.443200  01:12" for i in range(8)]
    assert texts("\n".join(table)) == table
    metrics = [f"{i}: loss 2.{i} lr 0.1" for i in range(8)]
    assert texts("\n".join(metrics)) == metrics


def test_terminal_wraps_are_joined() -> None:
    rows = [
        "Traceback (most recent call last):",
        '  File "/home/u/.conda/envs/e/lib/python3.11/site-packages/accelerate/utils/operations.py", line 822, in call',
        "    return model_forward(*args, **kwargs)",
        '  File "/home/u/.conda/envs/e/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 125, in forward',
        "    return F.linear(input, self.weight, self.bias)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 "
        "GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process has 78.03 GiB memory in use.",
    ]
    wrapped = "\n".join("\n".join(row[i : i + 80] for i in range(0, len(row), 80)) for row in rows)
    lines = read_lines(wrapped + "\nend\n")
    assert [line.text for line in lines] == [*rows, "end"]
    assert [line.number for line in lines] == [1, 2, 4, 5, 7, 8, 11]
    assert lines[1].quote == rows[1][:80]


def test_lines_of_one_length_are_not_wraps() -> None:
    rows = [
        f"step {i} | loss: 5.{i} | lr 3.0000e-03 | norm: 0.9062 | dt: 248.50ms | tok/sec: 147177"
        for i in range(100, 130)
    ]
    assert texts("\n".join(rows)) == rows


def test_task_labels_come_again_or_precede_tracebacks() -> None:
    assert [line.rank for line in read_lines("0: a\n1: a\n0: b\n")] == [0, 1, 0]
    assert [line.rank for line in read_lines("0: a\n1: b\n2: c\n")] == [None, None, None]
    assert read_lines("7: Traceback (most recent call last):")[0].rank == 7


def test_boxes_of_rich_are_taken_off() -> None:
    log = (
        "╭──────── Traceback (most recent call last) ────────╮\n"
        "│ /app/train.py:12 in main                          │\n"
        "│ ❱ 12 │   loss.backward()                          │\n"
        "╰───────────────────────────────────────────────────╯\n"
        "ValueError: x\n"
    )
    assert texts(log) == [
        "Traceback (most recent call last)",
        "/app/train.py:12 in main",
        "❱ 12 │   loss.backward()",
        "",
        "ValueError: x",
    ]


def test_colour_codes_that_lost_their_escape() -> None:
    (line,) = read_lines('[36m(RayTrainWorker pid=744)[0m   File "x.py", line 1, in f')
    assert (line.text, line.speaker) == ('  File "x.py", line 1, in f', "RayTrainWorker pid=744")


def test_file_headers_say_who_speaks() -> None:
    log = "==> logs/rank_3.log <==\nx\n\n==> logs/node2.log <==\n[rank9]: y\n"
    lines = [line for line in read_lines(log) if line.text in ("x", "y")]
    assert [(line.rank, line.host) for line in lines] == [(3, None), (9, "node2")]
    assert [line.speaker for line in lines] == ["logs/rank_3.log", "logs/node2.log/rank9"]


# --- envelopes -------------------------------------------------------------------------------------------------------


def test_docker_json_lines_and_their_pieces() -> None:
    rows = [
        {"log": "[rank1]: ValueError: a very ", "stream": "stderr", "time": "2024-01-01T00:00:00.5Z"},
        {"log": "step 1\n", "stream": "stdout", "time": "2024-01-01T00:00:00.6Z"},
        {"log": "long line\n", "stream": "stderr", "time": "2024-01-01T00:00:00.7Z"},
    ]
    lines = read_lines("\n".join(json.dumps(row) for row in rows))
    assert [(line.number, line.text, line.rank) for line in lines] == [
        (1, "ValueError: a very long line", 1),
        (2, "step 1", None),
    ]
    assert lines[0].time == datetime(2024, 1, 1, 0, 0, 0, 500000, UTC)
    assert lines[0].quote == "[rank1]: ValueError: a very long line"


def test_cri_lines_and_their_pieces() -> None:
    log = (
        "2024-01-01T00:00:00Z stderr P ValueError: \n2024-01-01T00:00:01Z stderr F x\n2024-01-01T00:00:02Z stdout F y\n"
    )
    lines = read_lines(log)
    assert [(line.number, line.text) for line in lines] == [(1, "ValueError: x"), (3, "y")]


def test_json_records_give_their_message() -> None:
    record = {"level": "error", "ts": 1704067200, "rank": 3, "hostname": "n1", "msg": "failed", "exc_info": TRACEBACK}
    lines = read_lines("2024-01-01T00:00:09Z " + json.dumps(record))
    assert [line.text for line in lines] == ["failed", *TRACEBACK.split("\n")]
    assert {(line.number, line.level, line.rank, line.host) for line in lines} == {(1, "ERROR", 3, "n1")}
    assert lines[0].time == datetime(2024, 1, 1, tzinfo=UTC)


def test_cloud_records_nest() -> None:
    record = {
        "jsonPayload": {"message": "[rank2]: KeyError: 'x'"},
        "severity": "ERROR",
        "timestamp": "2024-01-01T00:00:00Z",
    }
    (line,) = read_lines(json.dumps(record))
    assert (line.text, line.rank, line.level) == ("KeyError: 'x'", 2, "ERROR")


def test_metric_records_stay_as_they_are() -> None:
    row = '{"ts": "2025-03-11T10:16:16Z", "step": 60600, "loss": NaN, "grad_norm": NaN}'
    assert texts(row) == [row]
    both = '{"level":"warn","step":812,"msg":"overflow, step skipped","loss_scale":2}'
    assert texts(both) == ["overflow, step skipped", both]


def test_a_traceback_in_one_line_is_unfolded() -> None:
    escaped = TRACEBACK.replace("\n", "\\n").replace('"', '\\"')
    lines = read_lines("[rank5]: worker died: " + escaped)
    assert [line.text for line in lines][1:] == TRACEBACK.split("\n")[1:]
    assert {(line.number, line.rank) for line in lines} == {(1, 5)}


# --- any input -------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *(
            "\r",
            "\n",
            "\r\n",
            "\x1b[31m",
            "\x1b[0m",
            "\x1b]0;t\x07",
            "\x1b[1G",
            "\x08\x08\x08\x08",
            "\x00",
            "\xa0",
            "\x9b31m",
        ),
        *(
            "\x1b",
            "\x1b[",
            "\u202e",
            "[",
            "]",
            "> quoted\n",
            "│ x │\n",
            "==> rank_3.log <==\n",
            "x" * 80 + "\n",
            "0: a\n",
        ),
        *(
            "[rank3]: ",
            "12:00:00 ",
            "E1130 12:00:00.1 1 f.cc:1] ",
            "Traceback (most recent call last):\n",
            '\\n  File "x"',
        ),
        *('{"log":"abc\\n","stream":"stderr","time":"2024-01-01T00:00:00Z"}\n', '{"log":"part","stream":"stderr"}\n'),
        *("2024-01-01T00:00:00Z stderr P abc\n", "2024-01-01T00:00:00Z stderr F abc\n"),
        *('{"message":"x\\ny","level":"error","loss":1}\n', " 5%|▌ | 7/144 [00:11<04:22,  1.92s/it, loss=2.3]"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=25).map("".join))
def test_any_text(log: str) -> None:
    physical = log.split("\n")
    last = 1
    for line in read_lines(log):
        assert line.number >= last
        last = line.number
        assert not set("\r\n\x00\x1b") & set(line.text + line.quote)
        source = clean(physical[line.number - 1])
        if '{"' not in source:
            assert line.quote in source


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    decoded = decode(data)
    lines = read_lines(data)
    assert all(1 <= line.number <= decoded.count("\n") + 1 for line in lines)


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 10_000_000,
        b"\x00" * 1_000_000,
        b"\n" * 1_000_000,
        b"\r" * 1_000_000,
        b"\x1b[" * 500_000,
        b"\x1b]" * 500_000,
        b"[rank0]: " * 100_000,
        b'{"message":' + b"[" * 200_000 + b"}",
        b"1 it/s, " * 100_000,
        b"a." * 500_000,
    ],
    ids=["long line", "nuls", "blank lines", "returns", "csi", "osc", "prefixes", "deep json", "bar ends", "words"],
)
def test_hostile_input_is_read(data: bytes) -> None:
    assert len(read_lines(data)) <= 3


def test_empty_input_has_no_lines() -> None:
    assert read_lines(b"") == []
    assert read_lines("") == []
