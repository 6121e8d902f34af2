"""Lines → hits: which fingerprints match where.

One pass of a multi-pattern engine finds the literals that fingerprints need; only lines that hold one are looked at again, by RE2,
whose time is linear in the line whatever the pattern and however hostile the log.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, Literal

import ahocorasick_rs
import re2

from trainwreck.conditions import calculate, holds
from trainwreck.diagnosis import ExceptionRecord, Hit, Line
from trainwreck.errors import BundleError
from trainwreck.facts import typed
from trainwreck.taxonomy import Fingerprint, Taxonomy

__all__ = ["Scanner", "numeric_hits"]

CONTEXT_LINES = 60
"""How far from a hit, in lines, a fingerprint's `context` is looked for."""
LONGEST_MATCHED = 8_000
"""Characters of a line that patterns are matched against."""
LONGEST_CONTEXT = 1_000
"""Characters of each line around a hit in which `context` is looked for."""
HITS_A_FINGERPRINT = 200
"""Matches of one fingerprint that are kept: the first ones. A log that repeats a message a million times adds nothing."""


_NONE_OF_IT = r"(?i)^['\"]?:\s?(?:0+|none|false|off|no\s*$)(?:\s|[,;.|)\]}]|$)"
"""A counter or a switch named after a failure: `skipped steps: 0`."""
_NUMBERED = re.compile(r"^(?:-{2,}>|>|❱)?\s*\d{1,7}\s*(?:│\s?)?")
"""How notebooks and rich number a line of source."""
_TRIES_AGAIN = (
    r"(?i)\bretrying\b|\bretry (?:in )?[#\d]|\bwill (?:be )?retr|\bre-?attempt|\battempt \d+ ?(?:/|of) ?\d+"
    r"|\btrying again|\bfalling back\b"
)


@lru_cache(maxsize=8192)
def _compiled(pattern: str) -> Any:
    """Patterns are compiled when a line first needs them: a log meets a few dozen of the thousand."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise BundleError(f"the bundle holds a pattern that is none: {pattern[:80]!r}") from error


def _found(pattern: str | None, text: str) -> bool:
    return pattern is None or _compiled(pattern).search(text) is not None


class Scanner:
    """Finds the fingerprints of one taxonomy. Holds the compiled automaton; safe to share between threads."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._taxonomy = taxonomy

    @cached_property
    def _by_literal(self) -> Mapping[str, tuple[Fingerprint, ...]]:
        table: defaultdict[str, list[Fingerprint]] = defaultdict(list)
        for fingerprint in self._taxonomy.fingerprints:
            for literal in fingerprint.literals:
                table[literal].append(fingerprint)
        return {literal: tuple(found) for literal, found in table.items()}

    @cached_property
    def literals(self) -> tuple[str, ...]:
        """Every literal that some fingerprint requires, lower case."""
        return tuple(self._by_literal)

    @cached_property
    def automaton(self) -> ahocorasick_rs.BytesAhoCorasick:
        """The automaton over lower-case UTF-8 bytes; pattern i is `literals[i]`."""
        return ahocorasick_rs.BytesAhoCorasick(
            [literal.encode() for literal in self.literals], implementation=ahocorasick_rs.Implementation.DFA
        )

    def hits(self, lines: Sequence[Line], records: Sequence[ExceptionRecord]) -> list[Hit]:
        """Return every match of a text fingerprint, in order of line, then of fingerprint.

        A fingerprint is matched against each line's text, but not against the source code
        that a traceback quotes, and against `Type: message` of each exception whose message has several
        lines, joined by single spaces. Of one fingerprint at most `HITS_A_FINGERPRINT` matches are kept.
        """
        owner = {index: number for number, record in enumerate(records) for index in record.members}
        texts = [line.text[:LONGEST_MATCHED] for line in lines]
        joined: list[tuple[int, str]] = []
        for record in records:
            if "\n" in record.message:
                message = " ".join(record.message.split())
                joined.append((record.at, f"{record.type}: {message}"[:LONGEST_MATCHED]))
        said = list(texts)
        for index in quoted_code(lines, records):
            said[index] = ""
        candidates = self._candidates([*said, *(text for _, text in joined)])
        windows: dict[int, str] = {}
        found: dict[tuple[str, int], Hit] = {}
        count: defaultdict[str, int] = defaultdict(int)
        for row, literals in candidates:
            index, text = (row, texts[row]) if row < len(texts) else joined[row - len(texts)]
            for fingerprint in dict.fromkeys(f for literal in sorted(literals) for f in self._by_literal[literal]):
                if (fingerprint.id, index) in found or count[fingerprint.id] >= HITS_A_FINGERPRINT:
                    continue
                number = owner.get(index)
                record_here = None if number is None else records[number]
                if hit := _match(fingerprint, text, lines[index].level, index, texts, windows, record_here, number):
                    found[fingerprint.id, index] = hit
                    count[fingerprint.id] += 1
        return sorted(found.values(), key=lambda hit: hit.index)

    def _candidates(self, texts: Sequence[str]) -> Iterator[tuple[int, set[str]]]:
        """Yield (row, literals that occur in texts[row]), rows ascending."""
        encoded = [text.encode("utf-8", "replace") for text in texts]
        # bytes.lower() folds ASCII only and keeps every length, so that offsets stay true; str.lower() does not.
        haystack = b"\n".join(encoded).lower()
        starts = list(accumulate((len(part) + 1 for part in encoded), initial=0))
        rows: defaultdict[int, set[str]] = defaultdict(set)
        row = 0
        for literal, start, _ in self.automaton.find_matches_as_indexes(haystack, overlapping=True):
            if not starts[row] <= start < starts[row + 1]:
                row = bisect_right(starts, start) - 1
            rows[row].add(self.literals[literal])
        for row in sorted(rows):
            yield row, rows[row]


def quoted_code(lines: Sequence[Line], records: Sequence[ExceptionRecord]) -> set[int]:
    """Return the indices of lines that name a frame or quote its source: what a program says there, it did not say to anyone.

    But where an exception has no message (`assert length <= limit`), its own statement is all that tells, and stays.
    """
    found: set[int] = set()
    for record in records:
        frames = record.frames if record.message else record.frames[:-1]
        code = {frame.code.strip() for frame in frames if frame.code}
        for index in record.members:
            text = lines[index].text.strip()
            if index != record.at and (text in code or _NUMBERED.sub("", text) in code or text.startswith('File "')):
                found.add(index)
    return found


def _around(index: int, texts: Sequence[str], windows: dict[int, str]) -> str:
    """The lines around line `index`, joined so that one search does for all, and made once a line: a log can make every line a hit."""
    if index not in windows:
        near = texts[max(0, index - CONTEXT_LINES) : index + CONTEXT_LINES + 1]
        windows.clear()  # hits come by line: only the last window is asked for again
        windows[index] = "\n".join(other[:LONGEST_CONTEXT] for other in near)
    return windows[index]


def _match(
    fingerprint: Fingerprint,
    text: str,
    level: str | None,
    index: int,
    texts: Sequence[str],
    windows: dict[int, str],
    record: ExceptionRecord | None,
    number: int | None,
) -> Hit | None:
    assert fingerprint.pattern is not None
    match = _compiled(fingerprint.pattern).search(text)
    if match is None or (record is None and _found(_NONE_OF_IT, text[match.end() : match.end() + 12])):
        return None
    # The level was set aside with the prefix, and `unless` may speak of it.
    if fingerprint.unless and _found(fingerprint.unless, f"{level}: {text}" if level else text):
        return None
    if fingerprint.exception and (record is None or not _found(fingerprint.exception, record.type)):
        return None
    if fingerprint.frames or fingerprint.unless_frames:
        stack = [f"{frame.file}:{frame.function or ''}" for frame in record.frames] if record else []
        if fingerprint.frames and not any(_found(fingerprint.frames, frame) for frame in stack):
            return None
        if fingerprint.unless_frames and any(_found(fingerprint.unless_frames, frame) for frame in stack):
            return None
    if fingerprint.context or fingerprint.unless_context:
        around = _around(index, texts, windows)
        if fingerprint.context and not _found(f"(?m){fingerprint.context}", around):
            return None
        if fingerprint.unless_context and _found(f"(?m){fingerprint.unless_context}", around):
            return None
    facts: dict[str, Any] = {}
    for name, value in match.groupdict().items():
        if value is not None and (fact := typed(name, value)) is not None:
            facts[name] = fact
    for name, expression in fingerprint.facts:
        if (fact := calculate(expression, facts)) is not None:
            facts[name] = fact
    if fingerprint.when and not holds(fingerprint.when, facts):
        return None
    return Hit(
        label=fingerprint.label,
        fingerprint=fingerprint.id,
        role=fingerprint.role,
        # A line that announces another try tells of trouble, not of the end.
        specific=fingerprint.specific and not (record is None and _found(_TRIES_AGAIN, text)),
        index=index,
        start=match.start(),
        end=match.end(),
        conditions=fingerprint.conditions,
        facts=tuple(facts.items()),
        exception=number,
    )


def numeric_hits(
    taxonomy: Taxonomy,
    features: Mapping[str, float],
    anchors: Mapping[str, int],
    by: Literal["metrics", "ranks"],
) -> Iterator[Hit]:
    """Yield a hit for every numeric fingerprint whose condition holds of `features`, at its anchor's line (else at `event`'s)."""
    for fingerprint in taxonomy.fingerprints:
        if features and fingerprint.metrics and holds(fingerprint.metrics, features):
            yield Hit(
                label=fingerprint.label,
                fingerprint=fingerprint.id,
                role=fingerprint.role,
                specific=fingerprint.specific,
                index=anchors.get(fingerprint.anchor or "", anchors.get("event", 0)),
                conditions=1,
                by=by,
            )
