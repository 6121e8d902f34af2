"""The whole pipeline through its public face."""

from __future__ import annotations

import gzip
import json
import lzma
import threading
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import trainwreck
from trainwreck import bundle, diagnoser
from trainwreck.errors import BundleError, InputError, UsageError
from trainwreck.reading.text import clean, decode

EXAMPLES = Path(__file__).parent.parent / "examples"
DIAGNOSER = trainwreck.Diagnoser()
UNMASKED = trainwreck.Diagnoser(redact=False)

OOM = (
    "Traceback (most recent call last):\n"
    '  File "/workspace/train.py", line 88, in step\n'
    "    loss = model(batch)\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.83 GiB. GPU 2 has a total capacity of 79.11 GiB of which 3.42 GiB "
    "is free. Including non-PyTorch memory, this process has 75.66 GiB memory in use. Of the allocated memory 73.10 GiB is allocated by "
    "PyTorch, and 812.40 MiB is reserved by PyTorch but unallocated.\n"
)


def test_the_run_that_the_project_was_made_for_is_divergence():
    log = "\n".join(
        f"step {step} | loss {loss} | grad_norm {norm} | lr 6e-4"
        for step, (loss, norm) in enumerate(
            [
                ("2.31", "1.2"),
                ("2.30", "1.1"),
                ("2.29", "1.2"),
                ("2.9", "14"),
                ("9.9", "1200"),
                ("inf", "inf"),
                ("nan", "nan"),
            ],
            100,
        )
    )
    found = trainwreck.diagnose(log)
    assert (found.label, found.source, found.retry) == ("transformer-divergence", "metrics", "stop")
    assert "clip" in found.fix.primary.lower()


def test_examples_in_the_repository_are_diagnosed_as_the_readme_says():
    assert DIAGNOSER.diagnose(EXAMPLES / "diverging-run.log").label == "transformer-divergence"
    assert DIAGNOSER.diagnose(EXAMPLES / "slow-start-but-healthy.log").label == "healthy"
    ranks = DIAGNOSER.diagnose(EXAMPLES / "four-ranks-one-out-of-memory.log")
    assert (ranks.label, ranks.first_failure.rank) == ("gpu-out-of-memory", 2)
    assert ranks.collateral
    assert all("out of memory" not in echo.text for echo in ranks.collateral)


def test_facts_are_typed_and_stand_in_the_fix():
    found = trainwreck.diagnose(OOM)
    assert found.label == "gpu-out-of-memory"
    assert found.facts["tried_bytes"] == int(7.83 * 2**30)
    assert found.exception["type"] == "torch.OutOfMemoryError"
    assert found.exception["frames"][-1] == {
        "file": "/workspace/train.py",
        "line": 88,
        "function": "step",
        "code": "loss = model(batch)",
    }
    assert any(e.line == 4 and e.role == "root" for e in found.evidence)
    assert any(e.line == 2 and e.role == "context" for e in found.evidence)


def test_numbers_decide_between_a_full_and_a_fragmented_device():
    fragmented = OOM.replace("Tried to allocate 7.83 GiB", "Tried to allocate 2.00 GiB").replace(
        "812.40 MiB", "16.50 GiB"
    )
    assert trainwreck.diagnose(fragmented).label == "gpu-memory-fragmentation"


@pytest.mark.parametrize(
    "pack",
    [bytes, gzip.compress, lzma.compress, lambda data: zstandard.ZstdCompressor().compress(data)],
    ids=["plain", "gz", "xz", "zst"],
)
def test_compressed_files_and_text_in_memory_give_the_same_answer(tmp_path, pack):
    path = tmp_path / "job.log"
    path.write_bytes(pack(OOM.encode()))
    from_file, from_text = DIAGNOSER.diagnose_file(path), DIAGNOSER.diagnose(OOM)
    assert (from_file.label, from_file.facts) == (from_text.label, from_text.facts)
    assert from_file.first_failure.file == str(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
def test_encodings(encoding):
    log = OOM.replace("/workspace/train.py", "/workspace/entraîné.py")
    found = DIAGNOSER.diagnose(log.encode(encoding))
    assert (found.label, found.first_failure.line) == ("gpu-out-of-memory", 4)


def test_a_folder_of_per_rank_files_is_one_job(tmp_path):
    for rank in range(4):
        text = "step 10 loss 2.0\n" + (
            OOM if rank == 3 else "RuntimeError: Connection closed by peer [10.0.0.3]:41231\n"
        )
        (tmp_path / f"rank_{rank}.log").write_text(text)
    found = DIAGNOSER.diagnose(tmp_path)
    assert (found.label, found.first_failure.rank) == ("gpu-out-of-memory", 3)
    assert found.first_failure.file.endswith("rank_3.log")
    assert DIAGNOSER.diagnose_files(sorted(tmp_path.iterdir())).label == "gpu-out-of-memory"


NOT_JOBS = {
    "empty": b"",
    "novel": b"It was a bright cold day in April, and the clocks were striking thirteen.\nThe hallway smelt of boiled cabbage.\n"
    * 30,
    "web server": b'10.0.0.9 - - [30/Nov/2026:10:00:00 +0000] "GET /index.html HTTP/1.1" 200 5124 "-" "Mozilla/5.0"\n'
    * 50,
    "nuls": bytes(1_000_000),
    "binary": bytes(range(256)) * 2_000,
    "invalid utf-8": b"\xff\xfe\xfa\xc3\x28 loss\n" * 500,
    "one long line": b"x" * 10_000_000,
    "a million lines of NULs": b"\0\n" * 1_000_000,
}


@pytest.mark.parametrize("name", NOT_JOBS)
def test_what_is_no_job_is_unknown_and_never_healthy(name):
    found = DIAGNOSER.diagnose(NOT_JOBS[name])
    assert found.label == "unknown"
    assert found.unknown_because in ("not_a_job_log", "no_evidence")


def test_terminal_escapes_do_not_get_into_a_diagnosis():
    found = DIAGNOSER.diagnose("\x1b]0;owned\x07\x1b[31m" + OOM.replace("CUDA", "\x1b[1mCUDA\x1b[0m"))
    assert found.label == "gpu-out-of-memory"
    assert not {c for c in json.dumps(found.to_dict(), ensure_ascii=False) if ord(c) < 32 and c != "\n"}


def test_secrets_are_masked_unless_asked_otherwise():
    secret = "hf_" + "aBcD" * 9
    log = OOM.replace("model(batch)", f"model(batch, token='{secret}')")
    assert secret not in json.dumps(DIAGNOSER.diagnose(log).to_dict())
    assert secret in json.dumps(trainwreck.Diagnoser(redact=False).diagnose(log).to_dict())


def test_a_report_of_ours_in_a_log_does_not_change_the_answer():
    report = DIAGNOSER.diagnose(OOM)
    log = f"{OOM}trainwreck: {report.title}\n{report.fix.primary}\n"
    again = DIAGNOSER.diagnose(log)
    assert (again.label, again.first_failure.line) == (report.label, report.first_failure.line)


def test_bad_input_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match=r"missing\.log"):
        DIAGNOSER.diagnose(tmp_path / "missing.log")
    with pytest.raises(InputError):
        DIAGNOSER.diagnose(tmp_path)
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(b"x" * 100_000)[:60])
    with pytest.raises(InputError, match=r"broken\.gz"):
        DIAGNOSER.diagnose(broken)
    existing = tmp_path / "there.log"
    existing.write_text("x")
    with pytest.raises(UsageError, match="Path"):
        DIAGNOSER.diagnose(str(existing))


def test_a_bundle_is_refused_when_missing_changed_or_of_another_format(tmp_path):
    with pytest.raises(BundleError):
        trainwreck.Diagnoser(tmp_path)
    for path in bundle.DEFAULT.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert trainwreck.Diagnoser(tmp_path).bundle.digest == DIAGNOSER.bundle.digest
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"format": 99}))
    with pytest.raises(BundleError, match=r"config\.json"):
        trainwreck.Diagnoser(tmp_path)
    bundle.write_manifest(tmp_path)
    with pytest.raises(BundleError, match="99"):
        trainwreck.Diagnoser(tmp_path)


def test_one_diagnoser_serves_many_threads():
    fresh = trainwreck.Diagnoser()
    labels: list[str] = []
    threads = [threading.Thread(target=lambda: labels.append(fresh.diagnose(OOM).label)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert labels == ["gpu-out-of-memory"] * 8


def test_many_is_each():
    logs = [OOM, "KeyError: 'labels'", ""]
    assert DIAGNOSER.diagnose_many(logs) == [DIAGNOSER.diagnose(log) for log in logs]


def test_a_large_log_gives_what_a_small_one_gives(monkeypatch):
    progress = "".join(f"step {n} loss {2 + 1 / (n + 1):.4f} grad_norm 1.0 lr 1e-4\n" for n in range(60_000))
    log = progress + OOM
    assert len(log) > diagnoser.READ_WHOLE_BYTES
    large = DIAGNOSER.diagnose(log)
    assert (large.label, large.first_failure.line) == ("gpu-out-of-memory", 60_004)
    monkeypatch.setattr(diagnoser, "READ_WHOLE_BYTES", 2**30)
    whole = DIAGNOSER.diagnose(log)
    assert (whole.label, whole.facts, whole.evidence) == (large.label, large.facts, large.evidence)


PIECES = st.sampled_from(
    [
        b"Traceback (most recent call last):\n",
        b'  File "a.py", line 3, in f\n',
        b"    x = 1\n",
        b"ValueError: no\n",
        b"RuntimeError: ",
        b"During handling of the above exception, another exception occurred:\n",
        b"CUDA out of memory. Tried to allocate 2.00 GiB\n",
        b"Segmentation fault (core dumped)\n",
        b"NCCL WARN ",
        b"killed\n",
        b"{'loss': nan, 'grad_norm': 3}\n",
        b"step 3 loss 2.5\n",
        b"[rank1]: ",
        b"> ",
        b"2026-01-01 00:00:00,123 ERROR ",
        b'{"message": "',
        b'"}\n',
        b"\r",
        b"\n",
        b"\0",
        b"\x1b[31m",
        b"\xff\xfe",
        b"\xc3",
    ]
)
LOGS = st.one_of(
    st.binary(max_size=400), st.lists(st.one_of(PIECES, st.binary(max_size=12)), max_size=60).map(b"".join)
)


@settings(max_examples=250, deadline=None)
@given(LOGS)
def test_any_bytes_give_a_diagnosis_whose_quotes_stand_where_it_says(data):
    try:
        found = UNMASKED.diagnose(data)
    except InputError:  # a stray magic number makes a broken archive
        return
    assert 0.0 <= found.confidence <= 1.0
    assert found.label in DIAGNOSER.taxonomy.entries
    physical = decode(data).split("\n")
    for quote in (*found.evidence, *found.collateral):
        line = physical[quote.line - 1]
        if not line.lstrip().startswith("{"):  # of a JSON envelope the message is quoted
            assert quote.text[:40] in clean(line.replace("\r", "\n")).strip() or quote.text[:40] in clean(line)


def layout(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


PROGRESS = "".join(f"step {n} loss {4 - n / 20:.3f} grad_norm 1.0 lr 1e-4\n" for n in range(1, 40))


@pytest.mark.parametrize(
    "files",
    [
        {"job.err": OOM, "job.out": PROGRESS},
        {"job.out": PROGRESS, "zjob.err": OOM},
        {"attempt_0/2/stderr.log": OOM, "attempt_0/2/stdout.log": PROGRESS},
        {"rank_0.log": OOM, "rank_1.log": PROGRESS, "rank_2.log": PROGRESS},
        {
            "one.log": "".join(f"[default1]: {line}\n" for line in OOM.splitlines())
            + "[default0]: step 40 loss 2.0\n" * 4
        },
        {
            "one.log": "".join(f"(Trainer pid=11) {line}\n" for line in OOM.splitlines())
            + "(Trainer pid=12) step 40 loss 2.0\n" * 4
        },
        {
            "one.log": PROGRESS
            + "".join(f"[rank1]: {line}\n" for line in OOM.splitlines())
            + "[rank0]: step 40 loss 2.0\n" * 4
        },
    ],
    ids=["err before out", "out before err", "torchrun", "ranks", "local ranks", "actors", "interleaved"],
)
def test_progress_of_others_does_not_make_a_dead_job_healthy(tmp_path, files):
    assert DIAGNOSER.diagnose(layout(tmp_path, files)).label == "gpu-out-of-memory"


def test_source_code_that_a_traceback_quotes_is_not_what_happened():
    log = (
        "Traceback (most recent call last):\n"
        '  File "/app/train.py", line 7, in step\n'
        '    guarded(run, retry_on="CUDA out of memory. Tried to allocate 2.00 GiB")\n'
        '  File "/app/guard.py", line 3, in guarded\n'
        "    return batch['labels']  # RuntimeError: Expected all tensors to be on the same device\n"
        "KeyError: 'labels'\n"
    )
    assert DIAGNOSER.diagnose(log).label == "key-error"


def test_what_others_say_does_not_hide_an_exception_that_nothing_knows():
    log = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/app/train.py", line 7, in step\n'
        "[rank1]: RuntimeError: replay buffer checksum differs\n"
        "Sending process 411 closing signal SIGTERM\n"
        "failed (exitcode: 1) local_rank: 1 (pid: 412) of binary: /usr/bin/python\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    )
    found = DIAGNOSER.diagnose(log)
    assert (found.label, found.unknown_because, found.first_failure.rank) == ("unknown", "not_covered", 1)


@pytest.mark.parametrize(
    ("ending", "label"),
    [
        ("[launcher] child exited with 143", "process-killed"),
        ("returncode=139", "native-crash"),
        ("train.py exited: 255", "collateral-exit"),
        ("child exited with 0", "healthy"),
    ],
)
def test_an_exit_status_at_the_end_is_no_sign_of_health(ending, label):
    assert DIAGNOSER.diagnose(f"{PROGRESS}{ending}\n").label == label


def test_a_run_that_leaves_its_lowest_loss_for_good_is_not_healthy():
    losses = [4 - n / 33 for n in range(84)] + [1.46 + n * 0.1 for n in range(36)]
    log = "".join(f"step {n} loss {loss:.3f} grad_norm 1.0 lr 3e-4\n" for n, loss in enumerate(losses))
    found = DIAGNOSER.diagnose(log)
    assert found.label in ("learning-rate-too-high", "transformer-divergence")
    assert 80 <= found.first_failure.line <= 90


def test_a_run_that_stands_still_for_hours_is_not_healthy():
    log = "".join(f"2026-05-01 00:{n:02d}:00 step {n} loss {4 - n / 20:.3f}\n" for n in range(30))
    log += "2026-05-01 06:31:00 dumping all stacks\n"
    assert DIAGNOSER.diagnose(log).label == "unknown"


def test_many_files_are_read_within_one_budget(tmp_path):
    filler = "2026-01-01 00:00:00 INFO worker: nothing to see in this line at all\n" * 9_000
    for rank in range(60):
        (tmp_path / f"rank_{rank}.log").write_text(filler + (OOM if rank == 41 else ""))
    found = DIAGNOSER.diagnose(tmp_path)
    assert (found.label, found.first_failure.rank) == ("gpu-out-of-memory", 41)
    assert found.first_failure.line == 9_004


def test_to_dict_is_what_json_reads_back():
    plain = DIAGNOSER.diagnose(OOM).to_dict()
    assert json.loads(json.dumps(plain)) == plain


def test_a_binary_file_is_refused(tmp_path):
    program = tmp_path / "python3"
    program.write_bytes(b"\x7fELF" + bytes(range(256)) * 40 + b"No space left on device\0")
    with pytest.raises(InputError, match="binary"):
        DIAGNOSER.diagnose(program)


def test_modes_trade_answers_for_certainty():
    echo = "starting\nfailed (exitcode: 1) local_rank: 1 (pid: 412) of binary: /usr/bin/python\n"
    precise, guess = trainwreck.Diagnoser(mode="precise"), trainwreck.Diagnoser(mode="best-guess")
    assert DIAGNOSER.diagnose(echo).label == "collateral-exit"
    unsure = precise.diagnose(echo)
    assert (unsure.label, unsure.unknown_because, unsure.alternatives[0][0]) == (
        "unknown",
        "ambiguous",
        "collateral-exit",
    )
    assert unsure.first_failure.line == 2
    assert precise.diagnose(OOM).label == "gpu-out-of-memory"
    echoed = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/app/train.py", line 7, in step\n'
        "[rank1]: RuntimeError: replay buffer checksum differs\n"
        "failed (exitcode: 1) local_rank: 1 (pid: 412) of binary: /usr/bin/python\n"
    )
    assert DIAGNOSER.diagnose(echoed).label == "unknown"
    assert guess.diagnose(echoed).label == "collateral-exit"
    with pytest.raises(UsageError, match="balanced"):
        trainwreck.Diagnoser(mode="bold")


def test_small_files_leave_their_share_to_the_large_one(tmp_path):
    filler = "2026-01-01 00:00:00 INFO worker: nothing to see in this line at all\n" * 6_000
    (tmp_path / "main.log").write_text(filler + OOM + filler[: len(filler) // 2])
    for number in range(700):
        (tmp_path / f"node{number}.txt").write_text("started\n")
    assert DIAGNOSER.diagnose(tmp_path).label == "gpu-out-of-memory"


def test_a_later_failure_that_nothing_knows_is_not_explained_by_one_that_was_survived():
    strange = 'Traceback (most recent call last):\n  File "/app/t.py", line 9, in go\nFrobError: wheel came off\n'
    found = DIAGNOSER.diagnose(f"{PROGRESS}{OOM}restarting\n{PROGRESS}{strange}")
    assert (found.label, found.unknown_because) == ("unknown", "not_covered")
    assert "FrobError" in found.first_failure.text


def test_a_run_that_diverged_before_its_time_limit_failed_by_its_numbers():
    losses = [3.0 - n / 40 for n in range(40)] + [2.4, 4.0, 7.5, 9.8, 9.9, 9.9, 9.9, 9.9]
    norms = [1.0] * 40 + [9, 80, 500, 900, 20, 3, 2, 2]
    log = "".join(
        f"step {n} loss {a:.3f} grad_norm {b:.2f} lr 3e-4\n" for n, (a, b) in enumerate(zip(losses, norms, strict=True))
    )
    log += "slurmstepd: error: *** JOB 88 ON a1 CANCELLED AT 2026-05-02T10:00:00 DUE TO TIME LIMIT ***\n"
    assert DIAGNOSER.diagnose(log).label == "transformer-divergence"
