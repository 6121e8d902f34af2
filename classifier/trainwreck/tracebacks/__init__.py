"""Tracebacks: lines -> exception records.

`parse` finds every raised exception and native crash in normalised lines, whole or cut, chained, grouped, quoted from
a worker process or printed by several processes into one file. `root_of` follows the links between them to the one
where the failure began.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainwreck.diagnosis import ExceptionRecord, Line
from trainwreck.tracebacks import python
from trainwreck.tracebacks.draft import Draft
from trainwreck.tracebacks.joining import join
from trainwreck.tracebacks.shapes import MAX_TEXT, header_at, hot

__all__ = ["parse", "root_of"]

_MAX_PARTS = 500
"""Lines that one physical line with escaped line ends is split into at most."""
_MAX_CHAIN = 256
_MAX_DEPTH = 32
_GROUP_REACH = 64
"""Records below an exception group among which its first member is looked for."""


def parse(lines: Sequence[Line]) -> list[ExceptionRecord]:
    """Return the exceptions and native crashes that `lines` show, by their first line.

    Lines of different files or speakers are read apart. Only the first 2,000 characters of a line are looked at. Takes
    time linear in the number of lines; raises nothing, whatever the lines hold.
    """
    streams: dict[tuple[str | None, str], list[tuple[int, str]]] = {}
    hot_streams: set[tuple[str | None, str]] = set()
    for index, line in enumerate(lines):
        key = (line.file, line.speaker)
        text = line.text
        if len(text) > MAX_TEXT:
            text = text if "\\n" in text else text[:MAX_TEXT]
        stream = streams.get(key)
        if stream is None:
            stream = streams[key] = []
        if "\\n" in text and header_at(text) >= 0:
            # A traceback inside one line, its line ends escaped (JSON, repr).
            parts = text.replace('\\"', '"').rstrip("\"'{}[](), ").removesuffix("\\n").split("\\n")
            stream.extend((index, part[:MAX_TEXT]) for part in parts[:_MAX_PARTS])
            hot_streams.add(key)
            continue
        stream.append((index, text[:MAX_TEXT]))
        if key not in hot_streams and hot(text):
            hot_streams.add(key)
    drafts = [draft for key, stream in streams.items() if key in hot_streams for draft in python.read(stream, lines)]
    return _frozen(drafts)


def _frozen(drafts: list[Draft]) -> list[ExceptionRecord]:
    whole = [draft for draft in drafts if draft.became is None and draft.members]
    drafts = join(sorted(whole, key=lambda draft: (min(draft.members), draft.at)))
    place = {id(draft): number for number, draft in enumerate(drafts)}
    return [_record(draft, place) for draft in drafts]


def _record(draft: Draft, place: dict[int, int]) -> ExceptionRecord:
    previous = place.get(id(draft.previous.standing())) if draft.previous is not None else None
    if previous == place[id(draft)]:
        previous = None
    type_, message = draft.type, "\n".join(draft.message).strip("\n").rstrip()
    if type_.endswith(("UnfilteredStackTrace", "JaxStackTraceBeforeTransformation")) and ": " in message:
        # The stage that JAX prints before it filters the stack: the exception itself stands in its message.
        type_, _, message = message.partition(": ")
    elif type_.endswith("SimplifiedTraceback"):
        type_ = message = ""  # announces an exception that was cut off
    frames = draft.frames[::-1] if draft.innermost_first else draft.frames
    return ExceptionRecord(
        type=type_,
        message=message,
        frames=tuple(frames),
        members=tuple(sorted({*draft.members, draft.at})),
        at=draft.at,
        kind=draft.kind,
        link=draft.link if previous is not None else None,
        previous=previous,
    )


def root_of(records: Sequence[ExceptionRecord], i: int) -> int:
    """Return the index of the record where the failure that record `i` belongs to began, by the links alone.

    A direct cause and an exception that was being handled come before what they led to; the exception in a worker's
    text comes before its re-raised copy; an exception group began with its first member, unless it has a cause of its
    own. A record without links is its own root. Chains are followed for 256 links.
    """
    for _ in range(_MAX_CHAIN):
        previous = records[i].previous
        if previous is None:
            break
        i = previous
    for _ in range(_MAX_DEPTH):
        near = range(i + 1, min(i + 1 + _GROUP_REACH, len(records)))
        first = next((j for j in near if records[j].link == "group" and records[j].previous == i), None)
        if first is None:
            break
        i = first
    return i
