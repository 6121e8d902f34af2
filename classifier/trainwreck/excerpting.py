"""A source too large to read line by line → the lines worth reading, with their true numbers.

The first pass notes in which blocks the literals of fingerprints and exception heads stand, and counts line ends; the second reads
those blocks, their neighbours, the head, the tail and a stride through the rest (for the metric series). Memory does not grow with
the file but for a few bytes a block.
"""

from __future__ import annotations

import codecs
import io
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import IO, BinaryIO, cast

import ahocorasick_rs

from trainwreck.diagnosis import Line
from trainwreck.reading.sources import Source
from trainwreck.reading.text import read_lines
from trainwreck.scanning import Scanner

__all__ = ["excerpt"]

BLOCK = 16 * 1024
CHUNK = 512 * BLOCK
OCCURRENCES = 8
"""Of each literal, this many first and this many last occurrences count: the first failure and the final words."""
HEAD, TAIL, STRIDE = 1 / 16, 3 / 16, 6 / 16
"""Shares of an excerpt for the head, the tail and the stride; the rest is for what was found."""
LONGEST_LINE_END = 8 * BLOCK

# How any language announces a failure, whatever it is; what it was is the taxonomy's business.
_HEADS = (
    "traceback (most recent call last)",
    "error: ",
    "exception: ",
    "fatal",
    "terminate called",
    "core dumped",
    "exitcode",
    "signal",
    "killed",
    "panic",
    "caused by:",
)


def excerpt(source: Source, scanner: Scanner, limit: int, advance: Callable[[int], None] | None = None) -> list[Line]:
    """Return the lines of `source` that matter, numbered as in the whole; about `limit` bytes of them, two blocks at least.

    `advance` is called with the number of bytes done after each chunk. Raises InputError when the source cannot be read.
    """
    marks = _survey(source, scanner, advance)
    lines: list[Line] = []
    with _open(source) as stream:
        position, number = 0, 1
        for first, last in _runs(_choose(marks, max(2, limit // BLOCK))):
            start, end = first * BLOCK, (last + 1) * BLOCK
            if position >= end:
                continue  # the run before ended with a line that reached over all of this one
            whole = start == 0 or position >= start  # such a line reached into it: a line of its own begins here
            if position < start:
                position = _skip_to(stream, position, start - 1)
                number = marks.lines_before[first] + 1
            data = _read_exactly(stream, end - position)
            position += len(data)
            if not data.endswith(b"\n"):
                rest = stream.readline(LONGEST_LINE_END)
                data += rest
                position += len(rest)
            if not whole:
                head, newline, after = data.partition(b"\n")
                if not head:
                    data = after  # the block began with a line of its own
                elif newline:
                    data, number = after, number + 1
            lines += read_lines(
                data,
                file=source.name,
                rank=source.rank,
                local_rank=source.local_rank,
                host=source.host,
                first_number=number,
            )
            number += data.count(b"\n")
    return lines


class _Marks:
    """What the first pass found."""

    def __init__(self, literals: int) -> None:
        self.lines_before: list[int] = []
        """Line ends before each block."""
        self.first: list[list[int]] = [[] for _ in range(literals)]
        self.last: list[deque[int]] = [deque(maxlen=OCCURRENCES) for _ in range(literals)]


@lru_cache(maxsize=8)
def _automaton(scanner: Scanner) -> tuple[tuple[str, ...], ahocorasick_rs.BytesAhoCorasick]:
    """The literals of the scanner and the heads of failures, once for all files of a job."""
    literals = tuple(dict.fromkeys([*_HEADS, *scanner.literals]))
    encoded = [literal.encode() for literal in literals]
    return literals, ahocorasick_rs.BytesAhoCorasick(encoded, implementation=ahocorasick_rs.Implementation.DFA)


def _survey(source: Source, scanner: Scanner, advance: Callable[[int], None] | None) -> _Marks:
    literals, automaton = _automaton(scanner)
    longest = max(map(len, literals))
    marks = _Marks(len(literals))
    block, ends, tail = 0, 0, b""
    with _open(source) as stream:
        while chunk := _read_exactly(stream, CHUNK):
            # The tail of the chunk before is scanned again so that a literal across the border is seen.
            # Overlapping: a short literal must not hide the long one that it stands in.
            for literal, start, _ in automaton.find_matches_as_indexes((tail + chunk).lower(), overlapping=True):
                where = block + max(0, start - len(tail)) // BLOCK
                if len(marks.first[literal]) < OCCURRENCES:
                    marks.first[literal].append(where)
                else:
                    marks.last[literal].append(where)
            for offset in range(0, len(chunk), BLOCK):
                marks.lines_before.append(ends)
                ends += chunk.count(b"\n", offset, offset + BLOCK)
            block = len(marks.lines_before)
            tail = chunk[-longest:]
            if advance:
                advance(len(chunk))
    return marks


def _choose(marks: _Marks, budget: int) -> list[int]:
    """The blocks to read, at most `budget`: of few the end and the first hits matter most."""
    total = len(marks.lines_before)
    chosen: set[int] = set()

    def add(blocks: Iterator[int] | range) -> None:
        for block in blocks:
            if len(chosen) < budget and 0 <= block < total:
                chosen.add(block)

    add(range(total - max(1, int(budget * TAIL)), total))
    add(range(int(budget * HEAD)))
    if stride := int(budget * STRIDE):
        add(range(0, total, max(1, total // stride)))
    # In rounds, and rare literals first, so that one that stands everywhere cannot use up what others need.
    rare_first = sorted(
        range(len(marks.first)), key=lambda literal: len(marks.first[literal]) + len(marks.last[literal])
    )
    hits = [
        found[turn] if forwards else found[-1 - turn]
        for turn in range(OCCURRENCES)
        for side, forwards in ((marks.first, True), (marks.last, False))
        for literal in rare_first
        if len(found := side[literal]) > turn
    ]
    add(iter(dict.fromkeys(hits)))
    add(iter(dict.fromkeys(block for where in hits for block in (where - 1, where + 1))))
    return sorted(chosen)


def _runs(blocks: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each stretch of consecutive blocks."""
    start = previous = None
    for block in blocks:
        if previous is None or block != previous + 1:
            if start is not None and previous is not None:
                yield start, previous
            start = block
        previous = block
    if start is not None and previous is not None:
        yield start, previous


def _open(source: Source) -> BinaryIO:
    stream = source.open()
    head = stream.read(2)
    stream.close()
    stream = source.open()
    if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return cast(BinaryIO, _Utf16(stream))
    return stream


class _Utf16(io.RawIOBase):
    """A UTF-16 stream as UTF-8, forwards only."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        self._ready = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._ready) < size:
            data = self._stream.read(CHUNK)
            self._ready += self._decoder.decode(data, final=not data).encode("utf-8", "replace")
            if not data:
                break
        size = len(self._ready) if size < 0 else size
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken

    def readline(self, size: int | None = -1) -> bytes:
        text = self.read(size if size is not None and size >= 0 else LONGEST_LINE_END)
        line, newline, rest = text.partition(b"\n")
        self._ready = rest + self._ready
        return line + newline

    def close(self) -> None:
        self._stream.close()
        super().close()


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end: decompressors return what they have."""
    parts: list[bytes] = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _skip_to(stream: BinaryIO, position: int, target: int) -> int:
    if target > position and isinstance(stream, (io.BufferedReader, io.BytesIO)):
        stream.seek(target)
        return target
    while position < target:
        data = stream.read(min(CHUNK, target - position))
        if not data:
            break
        position += len(data)
    return position
