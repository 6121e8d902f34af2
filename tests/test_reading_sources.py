"""What the user gave becomes sources."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import socket
import zipfile
from pathlib import Path

import pytest
import zstandard

from trainwreck.errors import InputError, InputWarning, UsageError
from trainwreck.reading.sources import MAX_FILES, Hints, Source, find_sources, hints
from trainwreck.reading.text import read_lines

LOG = b"step 1 loss 2.3\nValueError: x\n" * 500
PACK = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def only(target: str | bytes | Path | list[Path]) -> Source:
    (source,) = find_sources(target)
    return source


# --- text and single files -------------------------------------------------------------------------------------------


def test_text_is_a_log() -> None:
    source = only("größer\nx")
    assert (source.name, source.path, source.size) == (None, None, len("größer\nx".encode()))
    assert source.read() == "größer\nx".encode()
    assert only(LOG).read(7) == LOG[:7]


def test_empty_input_is_a_log_without_lines(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    assert [only(target).read() for target in ("", b"", empty, tmp_path)] == [b""] * 4


def test_file_is_named_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rank_3.log").write_bytes(LOG)
    monkeypatch.chdir(tmp_path)
    source = only(Path("rank_3.log"))
    assert (source.name, source.size, source.rank) == ("rank_3.log", len(LOG), 3)
    assert source.read() == LOG


@pytest.mark.parametrize("kind", PACK)
def test_compression_is_told_by_content(kind: str, tmp_path: Path) -> None:
    packed = PACK[kind](LOG)
    path = tmp_path / "train.log"
    path.write_bytes(packed)
    for source in (only(path), only(packed), only(tmp_path)):
        assert source.size == len(packed)
        assert source.read() == LOG
        assert source.read(40) == LOG[:40]
    with only(path).open() as stream:
        assert stream.readline() == b"step 1 loss 2.3\n"
        stream.seek(5_000)
        assert stream.read(20) == LOG[5_000:5_020]
        stream.seek(30)
        assert stream.read(6) == LOG[30:36]


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_appended_archives_are_one_log(kind: str) -> None:
    assert only(PACK[kind](b"a\n") + PACK[kind](b"b\n")).read() == b"a\nb\n"


@pytest.mark.parametrize("kind", PACK)
def test_broken_archive(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"rank0.log.{kind}"
    packed = PACK[kind](os.urandom(200_000))
    overwritten = packed[: len(packed) // 2] + b"\xff" * 300 + packed[len(packed) // 2 + 300 :]
    for damaged in (packed[: len(packed) // 2], packed[:40], overwritten):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"rank0\.log\..*damaged"):
            only(path).read()


def test_small_archive_of_much_text_is_read_in_pieces() -> None:
    for kind, pack in PACK.items():
        with only(pack(b"a" * 50_000_000)).open() as stream:
            assert stream.read(3) == b"aaa", kind
            assert sum(len(part) for part in iter(lambda: stream.read(2**20), b"")) == 50_000_000 - 3, kind


def test_utf16_file(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    path.write_bytes("ValueError: größer\r\n".encode("utf-16"))
    assert [line.text for line in read_lines(only(tmp_path).read())] == ["ValueError: größer"]
    assert only(path).read() == path.read_bytes()


# --- what cannot be read ---------------------------------------------------------------------------------------------


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        find_sources(tmp_path / "nothing.log")
    (tmp_path / "link").symlink_to(tmp_path / "nothing.log")
    with pytest.raises(InputError, match="no such file"):
        find_sources([tmp_path / "link"])


def test_file_that_vanishes_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(LOG)
    source = only(path)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        source.read()


def test_pipes_sockets_and_devices(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe"):
        find_sources(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a device"):
        find_sources(Path("/dev/null"))
    with socket.socket(socket.AF_UNIX) as listener:
        name = os.path.relpath(tmp_path / "s")
        listener.bind(name if len(name) < 100 else str(tmp_path / "s"))
        with pytest.raises(InputError, match="is a socket"):
            find_sources(tmp_path / "s")
    with pytest.raises(InputError, match="no text logs"):
        find_sources(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(LOG)
    path.chmod(0)
    with pytest.raises(InputError, match="permission denied"):
        only(path).read()
    with pytest.raises(InputError, match="check permissions"):
        find_sources(tmp_path)


def test_permission_error_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(LOG)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    source = only(path)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="permission denied"):
        source.read()
    with pytest.raises(InputError, match="check permissions"):
        find_sources(tmp_path)


def test_zip_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "logs", "w") as archive:
        archive.writestr("a.log", LOG)
    with pytest.raises(InputError, match="unpack it"):
        only(tmp_path / "logs").read()


def test_text_that_names_a_file_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(LOG)
    with pytest.raises(UsageError, match=r"pass Path\("):
        find_sources(str(path))
    with pytest.raises(UsageError, match=r"pass Path\("):
        find_sources(str(tmp_path))
    assert only(f"{path}\n{path}").data
    assert only("no/such/file.log").data == b"no/such/file.log"
    assert only("a\x00b").data == b"a\x00b"


@pytest.mark.parametrize("target", [3, [], ["a.log"], {"a": 1}, None])
def test_what_is_no_log_at_all(target: object) -> None:
    with pytest.raises(UsageError, match="Path"):
        find_sources(target)  # type: ignore[arg-type]


# --- folders ---------------------------------------------------------------------------------------------------------


def make(folder: Path, *names: str, content: bytes = LOG) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_folder_is_walked_in_natural_order(tmp_path: Path) -> None:
    make(tmp_path, "rank_10.log", "rank_2.log", "sub/b.out", "notes.txt", "stdout")
    sources = find_sources(tmp_path)
    assert [source.name for source in sources] == ["notes.txt", "rank_2.log", "rank_10.log", "stdout", "sub/b.out"]
    assert [source.rank for source in sources] == [None, 2, 10, None, None]


def test_what_is_no_log_is_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.log", "events.json", "history.jsonl", "error.json")
    make(tmp_path, ".hidden.log", ".git/x.log", "model.pt", "w.safetensors", "data.parquet", "train.py", "config.yaml")
    make(tmp_path, "tokenizer.json", "config.json", "run.log.tar.gz", "events.out.tfevents.17", "requirements.txt")
    make(tmp_path, "core.4412", content=b"\x7fELF\x02\x01" + bytes(500))
    make(tmp_path, "blob", content=os.urandom(5_000))
    make(tmp_path, "image.png.gz", "weights", content=gzip.compress(b"\x80\x02}" + bytes(900)))
    make(tmp_path, "holes.log", content=b"x" * 900 + bytes(300) + b"y" * 900)
    (tmp_path / "cycle").symlink_to(tmp_path)
    (tmp_path / "latest.log").symlink_to(tmp_path / "a.log")
    os.mkfifo(tmp_path / "pipe.log")
    assert [source.name for source in find_sources(tmp_path)] == [
        "a.log",
        "error.json",
        "events.json",
        "history.jsonl",
        "holes.log",
    ]


def test_folder_without_logs(tmp_path: Path) -> None:
    make(tmp_path, "model.pt", "train.py")
    with pytest.raises(InputError, match="no text logs in this folder"):
        find_sources(tmp_path)


def test_file_count_is_capped(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 5):
        (tmp_path / f"rank_{number}.log").write_bytes(b"x")
    with pytest.warns(InputWarning, match="only the first"):
        sources = find_sources(tmp_path)
    assert len(sources) == MAX_FILES
    assert sources[-1].name == f"rank_{MAX_FILES - 1}.log"


def test_several_paths_are_one_job(tmp_path: Path) -> None:
    make(tmp_path, "a/rank_0.log", "a/rank_1.log", "b.log")
    sources = find_sources([tmp_path / "b.log", tmp_path / "a"])
    assert [source.name for source in sources] == [
        str(tmp_path / name) for name in ("b.log", "a/rank_0.log", "a/rank_1.log")
    ]
    assert [source.rank for source in sources] == [None, 0, 1]


# --- hints -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("attempt_0/3/stderr.log", Hints(local_rank=3)),
        ("node2/attempt_1/0/stdout.log", Hints(local_rank=0, host="node2")),
        ("rank_3.log", Hints(rank=3)),
        ("rank3.out", Hints(rank=3)),
        ("logs/rank-03.err.gz", Hints(rank=3)),
        ("train.rank=12.log", Hints(rank=12)),
        ("global_rank_7.log", Hints(rank=7)),
        ("1/rank.12/stdout", Hints(rank=12)),
        ("local_rank_2.log", Hints(local_rank=2)),
        ("rank_9_local_rank_1.log", Hints(rank=9, local_rank=1)),
        ("slurm-123456-3.out", Hints(rank=3)),
        ("slurm-123456.out", Hints()),
        ("slurm-123456_7.out", Hints()),
        ("logs/worker-5.log", Hints(host="worker-5")),
        ("llm-train-worker-0.log", Hints(host="llm-train-worker-0")),
        ("gpu-07.log", Hints(host="gpu-07")),
        ("ip-10-0-0-1_stderr.log", Hints(host="ip-10-0-0-1")),
        ("10.0.3.4.log", Hints(host="10.0.3.4")),
        ("train.log.3", Hints()),
        ("frank3.log", Hints()),
        ("2024-01-01/12345678.log", Hints()),
        ("rank_123456789.log", Hints()),
        ("", Hints()),
    ],
)
def test_hints_of_a_path(path: str, expected: Hints) -> None:
    assert hints(path) == expected
