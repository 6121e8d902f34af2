"""Input that once crashed, hung or leaked, each by its kind; and the sizes at which cost must not grow faster than the input."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

import trainwreck
from trainwreck import bundle
from trainwreck.cli import main
from trainwreck.errors import BundleError, InputError, InputWarning

DIAGNOSER = trainwreck.Diagnoser()
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
DIGITS = "9" * 400

CRASHED = {
    "half a character in docker": '{"log":"%s \\ud83d\\n","stream":"stderr","time":"2024-01-01T00:00:00Z"}' % OOM,
    "half a character in a record": '{"message":"%s \\ud800 x"}' % OOM,
    "half a character in a host": '{"message":"%s","host":"a\\udfff"}' % OOM,
    "year one": f"0001-01-01 00:00:00 INFO a\n12:00:00 INFO b\n{OOM}",
    "year 9999": f"9999-12-31 23:00:00 INFO a\n01:00:00 INFO b\n{OOM}",
    "nan step": f"epoch,step,loss\n0,nan,0.5\n0,2,0.4\n{OOM}",
    "nan step in a table": f"| step | loss | lr |\n| nan | 0.5 | 0.1 |\n| nan | nan | 0.1 |\n{OOM}",
    "endless step": f"epoch,step,loss\n0,1e999,0.5\n0,2,0.4\n{OOM}",
    "glued nan": f"loss 1.0 step_nan loss_2.0\n{OOM}",
    "endless epochs": "step,epoch,loss\n" + "".join(f"{n},inf,{9 - n / 2}\n" for n in range(9)) + OOM,
    "many digits": OOM.replace("2.00", DIGITS),
    "many digits of time": '{"message":"%s","time":%s}' % (OOM, "1" * 400),
}


@pytest.mark.parametrize("name", CRASHED)
def test_what_once_crashed_is_diagnosed(name):
    assert DIAGNOSER.diagnose(CRASHED[name]).label == "gpu-out-of-memory"


def cost(text: str) -> float:
    taken = []
    for _ in range(2):
        start = time.process_time()
        DIAGNOSER.diagnose(text)
        taken.append(time.process_time() - start)
    return min(taken)


GROWING = {
    "bars with new words": lambda n: "\r".join(
        f"step {chr(97 + i % 26)}{chr(97 + i // 26 % 26)}{chr(97 + i // 676 % 26)} x" for i in range(n * 4_000)
    ),
    "escaped line ends": lambda n: (
        'x Traceback (most recent call last):\\n  File "a.py", line 1, in x' + "\\n" * (20_000 * n)
    ),
    "long numbers": lambda n: "\r".join(["a=" + "1." * 400 + "%"] * (60 * n)),
    "a rank a line": lambda n: "\n".join(f"[rank{i}]: step 1 loss 1.5" for i in range(1_500 * n)),
    "a failure a rank": lambda n: "\n".join(
        f"[rank{i}]: {('CUDA out of memory. Tried to allocate 2.00 GiB', 'No space left on device', 'Address already in use')[i % 3]}"
        for i in range(700 * n)
    ),
    "wrapped": lambda n: "\n".join("QUJD" * 19 for _ in range(2_000 * n)),
}


@pytest.mark.parametrize("name", GROWING)
def test_cost_grows_no_faster_than_the_input(name):
    small, large = cost(GROWING[name](1)), cost(GROWING[name](4))
    # Four times the input may cost eight times as much on a busy machine; quadratic work would cost sixteen.
    assert large < 10 * max(small, 0.05)


SECRET = "hf_" + "aBcD1" * 7


@pytest.mark.parametrize(
    "log",
    [
        f'Traceback (most recent call last):\n  File "/x/a.py", line 1, in login {SECRET}\n    f()\nKeyError: 1',
        '{"message":"RuntimeError: CUDA out of memory","host":"%s"}' % SECRET,
        f"RuntimeError: CUDA out of memory {'x ' * 300}{SECRET}",
    ],
    ids=["function", "host", "beyond the cut"],
)
def test_no_field_of_a_diagnosis_holds_a_secret(log):
    assert SECRET[:20] not in json.dumps(DIAGNOSER.diagnose(log).to_dict())


def test_one_damaged_file_does_not_cost_the_answer_of_the_others(tmp_path):
    (tmp_path / "rank0.log").write_text(OOM)
    (tmp_path / "rank1.log.gz").write_bytes(b"\x1f\x8b\x08\x00broken")
    with pytest.warns(InputWarning, match=r"rank1\.log\.gz"):
        assert DIAGNOSER.diagnose(tmp_path).label == "gpu-out-of-memory"
    (tmp_path / "rank0.log").unlink()
    with pytest.raises(InputError, match="damaged"):
        DIAGNOSER.diagnose(tmp_path / "rank1.log.gz")


def test_what_is_left_out_is_told_on_stderr(tmp_path, capsys):
    (tmp_path / "rank0.log").write_text(OOM)
    (tmp_path / "rank1.log.gz").write_bytes(b"\x1f\x8b\x08\x00broken")
    assert main(["diagnose", "-q", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out == "gpu-out-of-memory\n"
    assert "rank1.log.gz" in said.err


def test_an_empty_name_is_no_log(capsys):
    assert main(["diagnose", ""]) == 64
    assert "unset variable" in capsys.readouterr().err


def test_a_pipe_without_a_writer_is_given_up(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("trainwreck.cli.diagnose.PIPE_SECONDS", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert main(["diagnose", str(pipe)]) == 66
    assert "nobody writes" in capsys.readouterr().err


def test_a_pipe_with_a_writer_is_read(tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(OOM))
    writer.start()
    assert main(["diagnose", "-q", str(pipe)]) == 1
    writer.join()
    assert capsys.readouterr().out == "gpu-out-of-memory\n"


@pytest.mark.parametrize(
    "change",
    [
        {"fix": []},
        {"confirm": 5},
        {"retry": "zzz"},
        {"title": 5},
        {"tell_apart": [{}]},
        {"fingerprints": [{"id": "a/b", "role": "root", "specific": True, "pattern": None}]},
        {"fingerprints": [{"id": "a/b", "role": "root", "specific": True, "pattern": "abcd", "literals": [""]}]},
        {"fingerprints": [{"id": "a/b", "role": "root", "specific": True, "pattern": "abcd", "when": "9" * 5_000}]},
        {"fingerprints": [{"id": "a/b", "role": "root", "specific": True, "pattern": "abcd", "when": "f(x)"}]},
    ],
    ids=lambda c: next(iter(c)) + str(next(iter(c.values())))[-24:],
)
def test_a_bundle_of_wrong_types_is_refused(tmp_path: Path, change):
    for path in bundle.DEFAULT.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    taxonomy = json.loads((tmp_path / "taxonomy.json").read_text())
    taxonomy["entries"][0] |= change
    (tmp_path / "taxonomy.json").write_text(json.dumps(taxonomy))
    bundle.write_manifest(tmp_path)
    with pytest.raises(BundleError):
        trainwreck.Diagnoser(tmp_path)


def test_a_manifest_that_names_nothing_is_refused(tmp_path):
    for path in bundle.DEFAULT.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(BundleError, match="names no"):
        trainwreck.Diagnoser(tmp_path)
