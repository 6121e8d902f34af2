"""The command line: exit codes, formats, masking and manners, against a small taxonomy built by the command itself."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from trainwreck import diagnoser
from trainwreck.cli import main
from trainwreck.cli.screen import FAILURE, USAGE
from trainwreck.taxonomy_check import run_examples

ROOT = Path(__file__).parent.parent
HF = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"

OOM = f"""\
[rank0]: step 1 loss 2.0
[rank3]: logging in with {HF}
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/u/train.py", line 88, in <module>
[rank3]:     loss.backward()  # token={HF}
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. token={HF}
"""
FULL_DISK = "[rank0]: OSError: [Errno 28] No space left on device: '/ckpt'\n"
PROGRESS = "".join(f"step {n} loss {3 - n / 100:.4f} grad_norm 1.0\n" for n in range(1, 60))
NO_JOB = "It was the best of times, it was the worst of times.\n"

ENTRIES = {
    "memory/gpu-out-of-memory": """
stub: true
title: The GPU is full
owner: code
retry: stop
retry_reason: The same batch needs the same memory.
layer: library
severity: fatal
summary: The allocator found no room.
root_cause: Live tensors fill the device.
symptoms: [{sign: out of memory, why: the device is full}]
confirm: ["Run `nvidia-smi`."]
fix: {primary: "Make the batch smaller by {tried_bytes|what was asked for}."}
verify: The peak stays under the capacity.
tell_apart: []
fingerprints:
  - id: gpu-out-of-memory/torch
    pattern: 'CUDA out of memory\\. Tried to allocate (?P<tried_bytes>[\\d.]+ [KMG]iB)'
    role: root
    specific: true
    source: torch
    examples: ["RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"]
    counterexamples: ["no CUDA out of memory here"]
""",
    "storage/disk-full": """
stub: true
title: The disk is full
owner: platform
retry: after
summary: No space is left.
fingerprints:
  - id: disk-full/errno
    pattern: 'No space left on device'
    role: root
    specific: true
    source: errno
    examples: ["OSError: [Errno 28] No space left on device"]
""",
    "outcome/healthy": "stub: true\ntitle: No failure\nowner: none\nretry: none\nsummary: The run goes on.\n",
    "outcome/unknown": "stub: true\ntitle: Cause not found\nowner: unknown\nretry: unknown\nsummary: No class fits.\n",
}


def write_entries(folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(ROOT / "taxonomy" / "entry.schema.json", folder)
    for name, text in ENTRIES.items():
        family, entry_id = name.split("/")
        path = folder / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"id: {entry_id}\nfamily: {family}\n{text.lstrip()}")
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_entries(tmp_path_factory.mktemp("source") / "taxonomy")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, source: Path) -> str:
    folder = tmp_path_factory.mktemp("bundle") / "small"
    assert main(["taxonomy", "build", "--source", str(source), "--out", str(folder)]) == 0
    return str(folder)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name, text in {"oom": OOM, "disk": FULL_DISK, "fine": PROGRESS, "novel": NO_JOB, "empty": ""}.items():
        (tmp_path / f"{name}.log").write_text(text)
    return tmp_path


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TRAINWRECK_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")


def give_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes, tty: bool = False) -> None:
    stream = io.TextIOWrapper(io.BytesIO(data))
    monkeypatch.setattr(stream, "isatty", lambda: tty)
    monkeypatch.setattr(sys, "stdin", stream)


# --- exit codes ---


@pytest.mark.parametrize(
    ("name", "label", "code"),
    [
        ("oom", "gpu-out-of-memory", 1),
        ("disk", "disk-full", 1),
        ("fine", "healthy", 0),
        ("novel", "unknown", 2),
        ("empty", "unknown", 2),
    ],
)
def test_quiet_prints_the_label_and_the_exit_code_tells_the_outcome(
    logs: Path, model: str, capsys: Any, name: str, label: str, code: int
) -> None:
    assert main(["diagnose", "-q", str(logs / f"{name}.log"), "--model", model]) == code
    assert capsys.readouterr().out == f"{label}\n"


@pytest.mark.parametrize(
    "argv",
    [
        ["diagnos"],
        ["diagnose", "--nope"],
        ["diagnose", "x.log", "--format", "pdf"],
        ["diagnose", "x.log", "--json", "--format", "html"],
        ["diagnose", "x.log", "--json", "--quiet"],
        ["diagnose", "x.log", "-"],
        ["explain"],
        ["taxonomy", "nope"],
        ["taxonomy", "list", "--family"],
        ["taxonomy", "check", "--source", "/nonexistent"],
    ],
)
def test_usage_errors_are_64_and_one_line(argv: list[str], capsys: Any) -> None:
    assert main(argv) == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("trainwreck: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: folder / "missing.log",
        lambda folder: (folder / "hollow").mkdir() or folder / "hollow",
        lambda folder: (folder / "cut.gz").write_bytes(gzip.compress(os.urandom(9999))[:5000]) and folder / "cut.gz",
        lambda folder: Path("/dev/null"),
    ],
    ids=["missing", "empty folder", "cut archive", "device"],
)
def test_input_that_cannot_be_read_is_66_and_names_itself(make: Any, tmp_path: Path, model: str, capsys: Any) -> None:
    path = str(make(tmp_path))
    assert main(["diagnose", path, "--model", model]) == 66
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert path in err


def test_bundle_that_cannot_be_read_is_66(logs: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["diagnose", str(logs / "oom.log"), "--model", str(tmp_path / "none")]) == 66
    assert "manifest.json" in capsys.readouterr().err


def test_our_own_error_is_70_one_line_and_masked(
    logs: Path, model: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> None:
        raise ZeroDivisionError(f"while reading\n\x1b[31m{HF}")

    monkeypatch.setattr(diagnoser.Diagnoser, "diagnose_all", breaks)
    assert main(["diagnose", str(logs / "oom.log"), "--model", model]) == 70
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "ZeroDivisionError" in err
    assert "report" in err
    assert HF not in err
    assert "\x1b" not in err
    monkeypatch.setenv("TRAINWRECK_DEBUG", "1")
    assert main(["diagnose", str(logs / "oom.log"), "--model", model]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_interrupt_is_130_and_quiet(logs: Path, model: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(diagnoser.Diagnoser, "diagnose_all", interrupted)
    assert main(["diagnose", str(logs / "oom.log"), "--model", model]) == 130
    assert capsys.readouterr() == ("", "")


# --- what is read ---


def test_a_report_is_not_written_over_a_log(logs: Path, model: str, capsys: Any) -> None:
    log = logs / "oom.log"
    assert main(["diagnose", str(log), "--out", str(log), "--model", model]) == USAGE
    assert "overwritten" in capsys.readouterr().err
    assert log.read_text() == OOM
    assert main(["diagnose", str(log), "--out", str(logs.parent / "report.md"), "--model", model]) == FAILURE


def test_a_large_pipe_goes_over_the_disk_and_gives_the_same_answer(
    model: str, capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("trainwreck.cli.diagnose.IN_MEMORY_BYTES", 16)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    give_stdin(monkeypatch, OOM.encode())
    assert main(["diagnose", "-", "--json", "--model", model]) == FAILURE
    found = json.loads(capsys.readouterr().out)
    assert found["label"] == "gpu-out-of-memory"
    assert found["first_failure"]["file"] is None
    assert list(tmp_path.iterdir()) == []


def test_stdin_is_read_with_a_dash_and_without_a_file(model: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for argv in (["diagnose", "-q"], ["diagnose", "-q", "-"]):
        give_stdin(monkeypatch, OOM.encode())
        assert main([*argv, "--model", model]) == 1
    assert capsys.readouterr().out == "gpu-out-of-memory\n" * 2


def test_terminal_without_a_file_gets_help(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    give_stdin(monkeypatch, b"", tty=True)
    assert main(["diagnose"]) == 64
    assert "Examples:" in capsys.readouterr().out


def test_several_files_and_a_folder_are_one_job(logs: Path, model: str, tmp_path: Path, capsys: Any) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    (ranks / "rank0.log").write_text("step 1 loss 2\n")
    (ranks / "rank1.log").write_text(FULL_DISK.replace("[rank0]: ", ""))
    for target in ([str(ranks)], [str(ranks / "rank0.log"), str(ranks / "rank1.log")]):
        assert main(["diagnose", *target, "--json", "--model", model]) == 1
        said = json.loads(capsys.readouterr().out)
        assert said["label"] == "disk-full"
        assert said["first_failure"]["rank"] == 1
        assert said["first_failure"]["file"].endswith("rank1.log")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_named_pipe_is_read(tmp_path: Path, model: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'w').write({FULL_DISK!r})"]):
        assert main(["diagnose", "-q", str(pipe), "--model", model]) == 1


# --- what is written ---


def test_text_holds_diagnosis_and_no_color_off_a_terminal(logs: Path, model: str, capsys: Any) -> None:
    assert main(["diagnose", str(logs / "oom.log"), "--model", model]) == 1
    out = capsys.readouterr().out
    assert "The GPU is full" in out
    assert "oom.log:6" in out
    assert "Make the batch smaller by 2.5 GiB." in out
    assert "\x1b" not in out
    assert "Why this answer" not in out


@pytest.mark.parametrize(("variable", "colored"), [("FORCE_COLOR", True), ("NO_COLOR", False)])
def test_color_follows_the_environment(
    logs: Path, model: str, capsys: Any, monkeypatch: pytest.MonkeyPatch, variable: str, colored: bool
) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    main(["diagnose", str(logs / "oom.log"), "--model", model])
    assert ("\x1b[" in capsys.readouterr().out) is colored


def test_json_is_one_valid_object_and_a_list_with_all(logs: Path, model: str, capsys: Any) -> None:
    schema = json.loads(files("trainwreck").joinpath("diagnosis.schema.json").read_text())
    for name, code in (("oom", 1), ("fine", 0), ("novel", 2)):
        assert main(["diagnose", str(logs / f"{name}.log"), "--json", "--model", model]) == code
        jsonschema.validate(json.loads(capsys.readouterr().out), schema, cls=jsonschema.Draft202012Validator)
    assert main(["diagnose", str(logs / "oom.log"), str(logs / "disk.log"), "--all", "--json", "--model", model]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [type(one) for one in found] == [dict] * len(found)
    assert {one["label"] for one in found} <= {"gpu-out-of-memory", "disk-full"}


@pytest.mark.parametrize(
    ("name", "starts"),
    [("r.html", "<!doctype html>"), ("r.md", "## The GPU"), ("r.json", "{"), ("r.txt", "The GPU is full")],
)
def test_out_is_written_in_the_format_of_its_name(
    logs: Path, model: str, tmp_path: Path, capsys: Any, name: str, starts: str
) -> None:
    assert main(["diagnose", str(logs / "oom.log"), "--out", str(tmp_path / name), "--model", model]) == 1
    assert (tmp_path / name).read_text().startswith(starts)
    assert capsys.readouterr().out == ""


def test_out_that_cannot_be_written_is_a_usage_error(logs: Path, model: str, capsys: Any) -> None:
    assert main(["diagnose", str(logs / "oom.log"), "--out", str(logs), "--model", model]) == 64
    assert "--out" in capsys.readouterr().err


def test_format_beats_the_name_of_out(logs: Path, model: str, tmp_path: Path) -> None:
    main(
        ["diagnose", str(logs / "oom.log"), "--out", str(tmp_path / "r.html"), "--format", "markdown", "--model", model]
    )
    assert (tmp_path / "r.html").read_text().startswith("## ")


def test_why_says_what_decided(logs: Path, model: str, capsys: Any) -> None:
    main(["diagnose", str(logs / "oom.log"), "--why", "--model", model])
    out = capsys.readouterr().out
    assert "Why this answer" in out
    assert "gpu-out-of-memory/torch" in out


FORMATS = ("text", "markdown", "html", "json")


@pytest.mark.parametrize("form", FORMATS)
def test_secrets_are_masked_unless_told_otherwise(logs: Path, model: str, capsys: Any, form: str) -> None:
    main(["diagnose", str(logs / "oom.log"), "--format", form, "--why", "--model", model])
    masked = capsys.readouterr().out
    assert HF not in masked
    assert "masked hf token" in masked
    main(["diagnose", str(logs / "oom.log"), "--format", form, "--no-redact", "--model", model])
    assert HF in capsys.readouterr().out.replace("\n", "").replace(" ", "").replace("|", "")


@pytest.mark.parametrize("form", FORMATS)
def test_no_terminal_escape_of_a_hostile_log_reaches_stdout(tmp_path: Path, model: str, capsys: Any, form: str) -> None:
    evil = b"\x1b]0;owned\x07\x1b[2J\x9b31m\xe2\x80\xae\x00\x7f[bold]x[/]"
    path = tmp_path / "a\x1b[31mb.log"
    path.write_bytes(
        evil + b"\n" + evil + b" Traceback (most recent call last):\n" + b'  File "' + evil + b'.py", line 3, in f\n'
        b"RuntimeError: " + evil + b" CUDA out of memory. Tried to allocate 2.00 GiB " + evil + b"\n"
    )
    assert main(["diagnose", str(path), "--format", form, "--all", "--why", "--no-redact", "--model", model]) == 1
    out = capsys.readouterr().out
    assert "out of memory" in out
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out)


# --- the taxonomy ---


def test_explain_renders_the_entry(model: str, capsys: Any) -> None:
    assert main(["explain", "gpu-out-of-memory", "--model", model]) == 0
    assert "Make the batch smaller by what was asked for." in capsys.readouterr().out
    assert main(["explain", "gpu-out-of-memory", "--json", "--model", model]) == 0
    assert json.loads(capsys.readouterr().out)["owner"] == "code"
    for form, begins in (("markdown", "## The GPU is full"), ("html", "<!doctype html>")):
        assert main(["explain", "gpu-out-of-memory", "--format", form, "--model", model]) == 0
        assert capsys.readouterr().out.startswith(begins)


def test_explain_suggests_what_was_meant(model: str, capsys: Any) -> None:
    assert main(["explain", "gpu-out-of-memry", "--model", model]) == 64
    assert "gpu-out-of-memory" in capsys.readouterr().err


def test_list_shows_families_and_can_be_narrowed(model: str, capsys: Any) -> None:
    assert main(["taxonomy", "list", "--model", model]) == 0
    assert re.search(r"^memory\n  gpu-out-of-memory +The GPU is full$", capsys.readouterr().out, re.MULTILINE)
    assert main(["taxonomy", "list", "--family", "storage", "--json", "--model", model]) == 0
    assert [entry["id"] for entry in json.loads(capsys.readouterr().out)] == ["disk-full"]
    assert main(["taxonomy", "list", "--family", "nope", "--model", model]) == 64
    assert "memory" in capsys.readouterr().err


def test_search_finds_by_all_words_and_says_when_there_is_nothing(model: str, capsys: Any) -> None:
    assert main(["taxonomy", "search", "space", "left", "--model", model]) == 0
    assert capsys.readouterr().out.startswith("disk-full")
    assert main(["taxonomy", "search", "no such words", "--model", model]) == 1
    assert "fewer words" in capsys.readouterr().err


def test_check_passes_good_entries_and_names_what_is_wrong(source: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["taxonomy", "check", "--source", str(source)]) == 0
    assert "4 entries, 3 examples run, 0 problems" in capsys.readouterr().out
    broken = write_entries(tmp_path / "broken")
    path = broken / "storage" / "disk-full.yaml"
    path.write_text(path.read_text() + '    counterexamples: ["No space left on device, says the poet"]\n')
    report = run_examples(broken)
    assert len(report.problems) == 1
    assert report.problems[0].startswith("disk-full/errno: matches")
    assert run_examples(broken, ["gpu-out-of-memory"]).problems == ()
    path.write_text(path.read_text().replace("OSError: [Errno 28] No space left", "plenty of space"))
    assert "does not match its example" in run_examples(broken).problems[0]
    path.write_text("id: disk-full\nowner: nobody\n")
    (broken / "memory" / "gpu-out-of-memory.yaml").write_text("{")
    problems = run_examples(broken).problems
    assert any("disk-full.yaml" in problem for problem in problems)
    assert any("gpu-out-of-memory.yaml: not valid YAML" in problem for problem in problems)
    assert main(["taxonomy", "check", "disk-ful", "--source", str(broken)]) == 64
    assert "disk-full" in capsys.readouterr().err


def test_build_without_yaml_says_how_to_get_it(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert main(["taxonomy", "build"]) == 64
    assert "pip install PyYAML jsonschema" in capsys.readouterr().err


# --- help, version, processes ---


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["diagnose"],
        ["explain"],
        ["taxonomy", "list"],
        ["taxonomy", "search"],
        ["taxonomy", "build"],
        ["taxonomy", "check"],
    ],
)
def test_help_teaches_by_example(argv: list[str], capsys: Any) -> None:
    assert main([*argv, "--help"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"Examples?:\n +trainwreck " + " ".join(argv), out)


def test_help_names_the_exit_codes_and_groups_the_options(capsys: Any) -> None:
    main(["diagnose", "--help"])
    out = capsys.readouterr().out
    for code in ("0 healthy", "1 a failure", "2 unknown", "64", "66", "70"):
        assert code in out
    assert out.index("Arguments:") < out.index("What is answered:") < out.index("Output:")
    assert main([]) == 64
    assert "Exit codes" in capsys.readouterr().out


def test_version(capsys: Any) -> None:
    assert main(["--version"]) == 0
    assert re.fullmatch(r"trainwreck \d+\.\d+\S*\n", capsys.readouterr().out)


def run(*argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "classifier")} | more.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "trainwreck", *argv], capture_output=True, env=environment, check=False, **more
    )


def test_module_runs_in_a_terminal_that_knows_only_ascii(logs: Path, model: str) -> None:
    (logs / "oom.log").write_text(OOM + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB für 漢字\n")
    done = run("diagnose", str(logs / "oom.log"), "--model", model, env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.returncode == 1
    assert done.stderr == b""
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    "argv", [["--help"], ["diagnose", "LOG", "--model", "MODEL"], ["taxonomy", "list", "--model", "MODEL"]]
)
def test_closed_pipe_is_quiet_and_not_mistaken_for_an_outcome(logs: Path, model: str, argv: list[str]) -> None:
    given = [{"LOG": str(logs / "oom.log"), "MODEL": model}.get(word, word) for word in argv]
    reader, writer = os.pipe()
    os.close(reader)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "classifier")}
    done = subprocess.run(
        [sys.executable, "-m", "trainwreck", *given],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_help_imports_nothing_of_weight() -> None:
    code = (
        "import sys; from trainwreck.cli import main; main(['--help'])\n"
        "heavy = {'rich.console', 'rich.markdown', 're2', 'ahocorasick_rs', 'trainwreck.diagnoser', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "classifier")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert done.stderr.strip() == b"[]"


def test_the_picture_in_the_readme_is_what_the_program_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parent.parent
    picture = (root / "README.md").read_text(encoding="utf-8").split("```text\n")[1].split("\n```")[0]
    command, shown = picture.split("\n", 1)
    monkeypatch.chdir(root)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(command.removeprefix("$ trainwreck ").split()) == 1
    assert capsys.readouterr().out.startswith(shown)
