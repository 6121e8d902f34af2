"""What the user gave → the logs in it: text, a file (compressed or not), a folder with one file a rank, or several."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import stat
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import zstandard

from trainwreck.errors import InputError, InputWarning, UsageError

__all__ = ["MAX_FILES", "Hints", "Source", "find_sources", "hints"]

MAX_FILES = 2_000
"""Of a folder, at most this many logs are taken, in natural order of their paths."""
_MAX_ENTRIES = 200_000
_SNIFF_BYTES = 4_096
_HINT_PARTS = 4
"""How many parts of a file's path can say who wrote it: `node2/attempt_0/3/stderr.log`."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What a path says about who wrote the log."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One log, not read yet."""

    name: str | None
    """The path as given; inside a folder, relative to it; None for text in memory."""
    size: int | None
    """Bytes on disk, compressed or not; for text in memory its length in bytes."""
    rank: int | None = None
    """Global rank, as the path tells."""
    local_rank: int | None = None
    host: str | None = None
    data: bytes | None = field(default=None, repr=False)
    path: Path | None = None

    def open(self) -> BinaryIO:
        """Return the log as a stream of bytes, decompressed (gzip, bzip2, xz, zstd; told by content, not by name).

        The stream can seek; seeking in a compressed log costs reading it. Raises InputError when the file cannot be
        opened, and so does reading when an archive is damaged.
        """
        if self.data is not None:
            plain: BinaryIO = io.BytesIO(self.data)
        elif self.path is not None:
            plain = _open_plain(self.path)
        else:
            plain = io.BytesIO()
        kind = _compression(plain.read(8))
        plain.seek(0)
        if kind is None:
            return plain
        if kind == "zip":
            plain.close()
            raise InputError(f"{self._called()}: a zip archive may hold several files; unpack it and pass the folder")
        return cast(BinaryIO, io.BufferedReader(_Unpacked(plain, kind, self._called()), 256 * 1024))

    def read(self, limit: int | None = None) -> bytes:
        """Return the decompressed bytes, or the first `limit` of them. Raises InputError as `open` does."""
        parts: list[bytes] = []
        left = limit
        try:
            with self.open() as stream:
                while (left is None or left > 0) and (part := stream.read(2**20 if left is None else min(left, 2**20))):
                    parts.append(part)
                    if left is not None:
                        left -= len(part)
        except OSError as error:
            raise _refused(self._called(), error) from error
        return b"".join(parts)

    def _called(self) -> str:
        return str(self.path) if self.path is not None else "the log"


# --- opening ---------------------------------------------------------------------------------------------------------

_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
)
_BROKEN = (zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, OSError, ValueError)


def _compression(head: bytes) -> str | None:
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def _decompressor(plain: BinaryIO, kind: str) -> Any:
    if kind == "gzip":
        return gzip.GzipFile(fileobj=plain)
    if kind == "bzip2":
        return bz2.BZ2File(plain)
    if kind == "xz":
        return lzma.LZMAFile(plain)
    return _Zstd(plain)


class _Zstd:
    """Frames of zstd, one after another. The library's own stream takes a file that was cut short for a whole one."""

    # A few bytes may stand for a block of 128 KiB: fed in small pieces, no archive can make much of them at once.
    _PIECE = 2_048

    def __init__(self, plain: BinaryIO) -> None:
        self._plain = plain
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False
        self._ready = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        while self._at >= len(self._ready):
            data = self._frame.unused_data if self._frame.eof else b""
            data = data or self._plain.read(self._PIECE)
            if not data:
                if self._begun and not self._frame.eof:
                    raise EOFError("the last frame is not complete")
                return b""
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._begun = True
            self._ready, self._at = self._frame.decompress(data), 0
        part = self._ready[self._at : self._at + size]
        self._at += len(part)
        return part


class _Unpacked(io.RawIOBase):
    """A compressed stream, decompressed as it is read: memory does not grow with what comes out."""

    def __init__(self, plain: BinaryIO, kind: str, called: str) -> None:
        self._plain, self._kind, self._called = plain, kind, called
        self._inner = _decompressor(plain, kind)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._inner.read(len(buffer))
        except _BROKEN as error:
            raise InputError(
                f"{self._called}: the {self._kind} archive is damaged or cut short ({error or type(error).__name__}); "
                "copy it again, or unpack what can be saved of it and pass that"
            ) from error
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end of a compressed log is not known before it is read")
        target = offset + (self._at if whence == io.SEEK_CUR else 0)
        if target < self._at:
            self._plain.seek(0)
            self._inner = _decompressor(self._plain, self._kind)
            self._at = 0
        skipped = bytearray(256 * 1024)
        while self._at < target and self.readinto(memoryview(skipped)[: target - self._at]):
            pass
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._plain.close()
        super().close()


def _refused(called: str | Path, error: OSError) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{called}: no such file or folder; check the path")
    if isinstance(error, PermissionError):
        return InputError(f"{called}: permission denied; make it readable for this user, or copy it")
    return InputError(f"{called}: cannot be read ({error.strerror or error}); check the file and the disk it is on")


def _open_plain(path: Path) -> BinaryIO:
    _regular(path)
    try:
        return path.open("rb")
    except OSError as error:
        raise _refused(path, error) from error


def _regular(path: Path) -> os.stat_result:
    """Return the status of a regular file. Raises InputError for others: reading a pipe or a device may never end."""
    try:
        status = path.stat()
    except OSError as error:
        raise _refused(path, error) from error
    except ValueError as error:
        raise InputError(f"{str(path)!r} is not a path ({error}); pass log text as str or bytes") from error
    if not stat.S_ISREG(status.st_mode):
        kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISDIR, "a folder"))
        kind = next((name for test, name in kinds if test(status.st_mode)), "a device")
        raise InputError(f"{path}: is {kind}, not a file; save the log to a file, or pass its text")
    return status


# --- finding ---------------------------------------------------------------------------------------------------------


def find_sources(target: str | bytes | Path | Source | Sequence[Path]) -> list[Source]:
    """Return the logs in `target`: text (`str`, `bytes`), a file or folder (`Path`), several of those paths, or a Source as it is.

    A folder is searched for text logs, at most `MAX_FILES` of them; hidden and binary files, source code and
    configuration are left out. Empty text and empty files are logs. Raises InputError for a path that is missing,
    unreadable or no regular file and for a folder without logs, UsageError for a one-line `str` that names a file.
    """
    if isinstance(target, str):
        _no_file_name(target)
        data = target.encode("utf-8", "surrogatepass")
        return [Source(name=None, size=len(data), data=data)]
    if isinstance(target, (bytes, bytearray, memoryview)):
        data = bytes(target)
        return [Source(name=None, size=len(data), data=data)]
    if isinstance(target, Path):
        return _from_path(target)
    if isinstance(target, Source):
        return [target]
    if not isinstance(target, Sequence):
        raise UsageError(f"pass log text (str, bytes), a Path or several Paths, not {type(target).__name__}")
    paths = [path for path in target if isinstance(path, Path)]
    if not paths or len(paths) < len(target):
        raise UsageError("pass at least one Path, and Paths only: Path('rank0.log') reads a file, a str is log text")
    found: list[Source] = []
    several = len(paths) > 1
    for path in paths:
        for source in _from_path(path):
            inside = several and path.is_dir()
            found.append(_renamed(source, str(path / (source.name or ""))) if inside else source)
    return found


def _no_file_name(text: str) -> None:
    name = text.strip()
    if not name or "\n" in name or len(name) > 1_024:
        return
    try:
        exists = Path(name).is_file() or (os.sep in name and Path(name).is_dir())
    except (OSError, ValueError):
        return
    if exists:
        raise UsageError(f"{name!r} is taken as log text, but it names a file; pass Path({name!r}) to read that file")


def _renamed(source: Source, name: str) -> Source:
    return Source(name, source.size, source.rank, source.local_rank, source.host, source.data, source.path)


def _from_path(path: Path) -> list[Source]:
    try:
        folder = path.is_dir()
    except (OSError, ValueError):
        folder = False
    if folder:
        return _in_folder(path)
    status = _regular(path)
    if status.st_size and not _readable_text(path):
        raise InputError(f"{path}: is a binary file, not a log; pass the text that the job printed")
    return [_file_source(path, str(path), status.st_size, "/".join(path.parts[-_HINT_PARTS:]))]


def _file_source(path: Path, name: str, size: int, hinted: str) -> Source:
    said = hints(hinted)
    return Source(name, size, said.rank, said.local_rank, said.host, None, path)


def _in_folder(folder: Path) -> list[Source]:
    if not os.access(folder, os.R_OK | os.X_OK):
        raise InputError(f"{folder}: permission denied; make the folder readable for this user")
    found: list[Source] = []
    refused: list[str] = []
    seen: set[tuple[int, int]] = set()
    for path in sorted(_walk(folder), key=_natural):
        if len(found) == MAX_FILES:
            warnings.warn(
                f"{folder}: only the first {MAX_FILES:,} logs are read; pass a part of it", InputWarning, stacklevel=4
            )
            break
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) in seen:
                continue  # `latest.log` is often a link to another file of the folder
            if status.st_size and not _holds_text(path):
                continue
        except OSError:
            refused.append(path.name)
            continue
        seen.add((status.st_dev, status.st_ino))
        name = path.relative_to(folder).as_posix()
        found.append(_file_source(path, name, status.st_size, name))
    if found and refused:
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        warnings.warn(f"{folder}: {refused[0]}{more} cannot be read and is left out", InputWarning, stacklevel=4)
    if found:
        return found
    if refused:
        raise InputError(f"{folder}: none of its logs can be read (for example {refused[0]}); check permissions")
    raise InputError(f"{folder}: no text logs in this folder; pass the folder that the job wrote its output to")


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the candidate files below `folder`. Linked folders are not entered, so there are no loops."""
    entries = 0
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name not in _SKIP_FOLDERS)
        for name in files:
            entries += 1
            if entries > _MAX_ENTRIES:
                return
            if not name.startswith(".") and _may_be_log(name):
                yield Path(root, name)


_DIGITS = re.compile(r"(\d+)")


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Sort key with numbers as numbers: `rank_2` before `rank_10`."""
    parts = _DIGITS.split(str(path))
    return [(0, int(part[:18]), "") if part.isdecimal() else (1, 0, part) for part in parts]


_SKIP_FOLDERS = {"node_modules", "site-packages", "venv", "checkpoints", "tensorboard", "tb_logs"}
_COMPRESSED = {".gz", ".bz2", ".xz", ".zst"}
# Weights, data and media; code and configuration; archives and programs.
_NO_LOG = re.compile(
    r"\.(?:pth?|bin|safetensors|ckpt|onnx|gguf|ggml|h5|hdf5|pb|tflite|pkl|pickle|joblib|np[yz]|msgpack|model|engine|parquet|"
    r"arrow|feather|tfrecord|idx|[lm]?db|lmdb|sqlite|wandb|png|jpe?g|gif|bmp|webp|svg|tiff?|pdf|mp[34]|wav|flac|ogg|avi|mov|"
    r"ttf|woff2?|ico|"
    r"py[cio]?|ipynb|sh|bash|ya?ml|toml|ini|cfg|conf|c|cc|cpp|cuh?|h|hpp|o|so|a|js|ts|css|html|md|rst|lock|proto|diff|patch|"
    r"tex|bib|"
    r"zip|tar|tgz|7z|rar|whl|egg|deb|rpm|exe|dll|dylib|jar|class|nsys-rep|qdrep|pftrace|core)$"
)
_NO_LOG_NAMES = {
    "requirements",
    "tokenizer",
    "vocab",
    "merges",
    "license",
    "licence",
    "readme",
    "makefile",
    "dockerfile",
}
_JSON_LOGS = re.compile(r"log|err|event|metric|state|history|std", re.I)


def _may_be_log(name: str) -> bool:
    path = PurePosixPath(name.lower())
    if path.suffix in _COMPRESSED:
        path = path.with_suffix("")
    if _NO_LOG.search(path.name) or path.stem in _NO_LOG_NAMES or name.startswith("events.out.tfevents"):
        return False
    return path.suffix != ".json" or bool(_JSON_LOGS.search(path.stem))


def _readable_text(path: Path) -> bool:
    """As `_holds_text`, with what cannot be opened left for reading it to say."""
    with contextlib.suppress(OSError, InputError):
        with path.open("rb") as stream:
            packed = _compression(stream.read(8)) is not None
        return packed or _holds_text(path)
    return True


def _holds_text(path: Path) -> bool:
    """Tell whether the beginning of a file reads like text. A damaged archive passes, so that reading it can say so."""
    try:
        with Source(None, None, path=path).open() as stream:
            head = stream.read(_SNIFF_BYTES)
    except InputError as error:
        if isinstance(error.__cause__, PermissionError):
            raise error.__cause__ from error
        return error.__cause__ is not None
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return True
    if head[257:262] == b"ustar" or head.startswith((b"\x7fELF", b"%PDF", b"\x89PNG", b"\x80\x02", b"\x80\x04")):
        return False
    nuls = head.count(0)
    if nuls and not (0.3 < nuls / len(head) < 0.7):  # UTF-16 text is about half NULs
        # A crashed machine leaves a log with holes: a few runs of NULs between text.
        text = head.replace(b"\x00", b"")
        if not text or len(text) < 0.5 * len(head):
            return False
        head = text
    strange = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head if byte)
    return strange <= 0.05 * len(head)


# --- what a path says ------------------------------------------------------------------------------------------------

_TORCHRUN = re.compile(r"(?:^|/)attempt_\d{1,4}/(\d{1,4})/(?:stdout|stderr|error)[^/]*$")
_LOCAL_RANK = re.compile(r"(?<![a-z])local[_-]?rank[_.=-]?(\d{1,4})(?!\d)", re.I)
_RANK = re.compile(r"(?<![a-z])(?:global[_-]?)?rank[_.=-]?(\d{1,5})(?!\d)", re.I)
# `slurm-%j-%t.out`: job, then task. `slurm-%A_%a.out` is an array job, and its second number is no rank.
_SLURM_TASK = re.compile(r"(?:^|/)(?:slurm|job)-\d{3,12}-(?:task)?(\d{1,5})\.(?:out|err|log)[^/]*$", re.I)
_HOST_NAME = re.compile(
    r"(?:[a-z0-9]+[.-])*(?:node|worker|host|master|launcher|trainer|head|compute|gpu|dgx|hgx|server|pod|cn|nid|chief|ps)s?[_-]?\d{1,6}"
    r"(?:-\d{1,5})*|ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}|(?:\d{1,3}\.){3}\d{1,3}",
    re.I,
)
_ENDINGS = re.compile(
    r"(?:\.(?:log|out|err|txt|stdout|stderr|jsonl|json|gz|bz2|xz|zst)|[._-](?:stdout|stderr|output|log))+$", re.I
)


def hints(path: str) -> Hints:
    """Return what `path` (relative, or a file's name) says about rank, local rank and host.

    Only names that say so count: a number that may be a job's or an attempt's is no rank.
    """
    tail = path.replace("\\", "/")[-512:]
    rank = local_rank = None
    if found := _TORCHRUN.search(tail):
        local_rank = int(found[1])
    if found := _LOCAL_RANK.search(tail):
        local_rank = int(found[1])
        tail = tail[: found.start()] + tail[found.end() :]
    ranks = _RANK.findall(tail) or _SLURM_TASK.findall(tail)
    if ranks:
        rank = int(ranks[-1])
    host = None
    for part in reversed(PurePosixPath(tail).parts[-_HINT_PARTS:]):
        stem = _ENDINGS.sub("", part)
        if _HOST_NAME.fullmatch(stem):
            host = stem
            break
    return Hints(rank, local_rank, host)
