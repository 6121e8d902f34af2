"""The failure taxonomy: entries and their fingerprints, as a bundle's `taxonomy.json` holds them.

The YAML files under `taxonomy/` are compiled into that JSON by `trainwreck.taxonomy_build`; nothing here needs YAML.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from trainwreck.conditions import names_in
from trainwreck.errors import BundleError, TaxonomyError, UsageError

__all__ = ["UNKNOWN", "Entry", "Fingerprint", "Taxonomy", "load"]

UNKNOWN = "unknown"
OUTCOMES = ("healthy", UNKNOWN)
"""Entries that every taxonomy must have."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One textual or numeric sign of a failure class. Fields as in `taxonomy/entry.schema.json`."""

    id: str
    label: str
    role: Literal["root", "collateral", "confirms", "excludes"]
    specific: bool
    pattern: str | None = None
    literals: tuple[str, ...] = ()
    """Lower-case strings of which every matching line holds at least one."""
    metrics: str | None = None
    anchor: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    when: str | None = None
    unless: str | None = None
    exception: str | None = None
    frames: str | None = None
    unless_frames: str | None = None
    context: str | None = None
    unless_context: str | None = None
    retry: str | None = None
    retry_reason: str | None = None
    owner: str | None = None
    fix: tuple[tuple[str, str], ...] = ()
    """(`primary`, `fallback` or `stopgap`; sentence) where this wording asks for another fix than its entry."""

    @property
    def conditions(self) -> int:
        """How many positive conditions beyond the pattern it states."""
        return sum(c is not None for c in (self.when, self.exception, self.frames, self.context))


@dataclass(frozen=True, slots=True)
class Entry:
    """One failure class. `content` holds every field of the YAML file except the fingerprints."""

    id: str
    title: str
    family: str
    owner: str
    retry: str
    layer: str
    summary: str
    content: Mapping[str, Any]
    fingerprints: tuple[Fingerprint, ...]


@dataclass(frozen=True)
class Taxonomy:
    """All entries by id, in the order of their families."""

    version: str
    entries: Mapping[str, Entry]
    codes: tuple[Mapping[str, Any], ...] = ()
    """Tables of the codes that systems print: `{id, title, codes: [{code, name, class, meaning, ...}]}`."""

    @cached_property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        """Every fingerprint of every entry."""
        return tuple(f for entry in self.entries.values() for f in entry.fingerprints)

    @cached_property
    def by_fingerprint(self) -> Mapping[str, Fingerprint]:
        """Fingerprint by id."""
        return {f.id: f for f in self.fingerprints}

    def __getitem__(self, entry_id: str) -> Entry:
        """Return the entry. Raises UsageError, naming the closest ids, when there is none."""
        try:
            return self.entries[entry_id]
        except KeyError:
            import difflib

            close = difflib.get_close_matches(entry_id, self.entries, n=3, cutoff=0.4)
            hint = f" Did you mean {', '.join(close)}?" if close else " `trainwreck taxonomy list` shows all ids."
            raise UsageError(f"there is no failure class {entry_id!r}.{hint}") from None

    def named(self, words: str) -> Entry | None:
        """Return the entry that `words` name: an id, an alias, or a code as it is printed (`Xid 79`, `errno 28`, `SIGSEGV`)."""
        wanted = _plain(words)
        for entry in self.entries.values():
            if wanted in {_plain(name) for name in (entry.id, entry.title, *entry.content.get("aliases", ()))}:
                return entry
        for table in self.codes:
            for row in table["codes"]:
                names = {_plain(name) for name in (f"{table['id'].rstrip('s')} {row['code']}", row["name"])}
                if isinstance(row["code"], str):
                    names.add(_plain(row["code"]))
                if wanted in names and row["class"]:
                    return self.entries[row["class"]]
        return None

    def search(self, words: str) -> list[Entry]:
        """Return the entries in which every word of `words` occurs (any case), best match first."""
        wanted = words.lower().split()

        def matches() -> Iterator[tuple[int, Entry]]:
            for entry in self.entries.values():
                head = " ".join(
                    [entry.id, entry.title, *entry.content.get("aliases", ()), *entry.content.get("tags", ())]
                ).lower()
                body = json.dumps(entry.content, ensure_ascii=False).lower()
                patterns = " ".join(f.pattern or "" for f in entry.fingerprints).lower()
                if all(word in head or word in body or word in patterns for word in wanted):
                    yield sum(10 * (word in head) + body.count(word) for word in wanted), entry

        return [entry for _, entry in sorted(matches(), key=lambda scored: -scored[0])]


def _plain(words: str) -> str:
    """Words without case, punctuation and spacing: `XID: 79`, `Xid 79` and `xid79` are one."""
    return "".join(character for character in words.lower() if character.isalnum())


def load(path: Path) -> Taxonomy:
    """Return the taxonomy of a bundle's `taxonomy.json`. Raises BundleError when it is missing, damaged or of another format."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise BundleError(f"{path}: taxonomy format {data['format']}, this version of trainwreck reads {FORMAT}")
        entries = {e["id"]: _entry(e) for e in data["entries"]}
        if missing := [outcome for outcome in OUTCOMES if outcome not in entries]:
            raise BundleError(f"{path}: lacks the outcome {missing[0]!r}, without which nothing can be diagnosed")
        return Taxonomy(version=data["version"], entries=entries, codes=tuple(data.get("codes", ())))
    except OSError as error:
        raise BundleError(
            f"{path}: cannot be read ({error.strerror}). `trainwreck taxonomy build` makes it."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, TaxonomyError) as error:
        raise BundleError(f"{path}: damaged ({error}). Install trainwreck again, or build the bundle again.") from error


_RETRY = frozenset(("restart", "elsewhere", "stop", "after", "none", "unknown"))
_TEXTS = (
    "title",
    "family",
    "owner",
    "summary",
    "retry_reason",
    "root_cause",
    "mistaken_for",
    "verify",
    "prevent",
    "layer",
    "severity",
)
_PATTERNS = ("pattern", "unless", "exception", "frames", "unless_frames", "context", "unless_context")


def _sound(entry: dict[str, Any]) -> None:
    """Raise TypeError or ValueError where an entry of a stranger's bundle is not of the types that the program reads."""

    def need(good: bool, what: str) -> None:
        if not good:
            raise TypeError(f"entry {str(entry.get('id'))[:60]!r}: {what} is not what it should be")

    need(all(isinstance(entry.get(name, ""), str) for name in _TEXTS), "a text")
    need(entry["retry"] in _RETRY, "retry")
    fix = entry.get("fix", {})
    need(isinstance(fix, dict) and fix.keys() <= {"primary", "fallback", "stopgap"}, "fix")
    need(all(isinstance(text, str) for text in fix.values()), "fix")
    need(all(isinstance(step, str) for step in entry.get("confirm", ())), "confirm")
    asked = ("id", "question", "if_yes", "if_no")
    need(all(isinstance(q.get(name), str) for q in entry.get("tell_apart", ()) for name in asked), "tell_apart")
    for fingerprint in entry.get("fingerprints", ()):
        named = str(fingerprint.get("id"))
        own = fingerprint.get("fix", {})
        need(isinstance(own, dict) and own.keys() <= {"primary", "fallback", "stopgap"}, f"fix of {named}")
        need(all(isinstance(text, str) for text in own.values()), f"fix of {named}")
        need(fingerprint.get("retry") in {None, *_RETRY}, f"retry of {named}")
        need("pattern" in fingerprint or isinstance(fingerprint.get("metrics"), str), f"pattern of {named}")
        for name in _PATTERNS:
            need(isinstance(fingerprint.get(name, ""), str), f"{name} of {named}")
        literals = fingerprint.get("literals", ())
        need(all(isinstance(literal, str) and len(literal) >= 4 for literal in literals), f"literals of {named}")
        for expression in (*fingerprint.get("facts", {}).values(), fingerprint.get("when"), fingerprint.get("metrics")):
            if expression is not None:
                names_in(expression)


def _entry(data: dict[str, Any]) -> Entry:
    _sound(data)
    fingerprints = data.pop("fingerprints", [])
    return Entry(
        id=data["id"],
        title=data["title"],
        family=data["family"],
        owner=data["owner"],
        retry=data["retry"],
        layer=data.get("layer", "program"),
        summary=data["summary"],
        content=data,
        fingerprints=tuple(
            Fingerprint(
                label=data["id"],
                literals=tuple(f.pop("literals", ())),
                facts=tuple(f.pop("facts", {}).items()),
                fix=tuple(f.pop("fix", {}).items()),
                **f,
            )
            for f in fingerprints
        ),
    )
