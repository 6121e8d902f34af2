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

from trainwreck.errors import BundleError, UsageError

__all__ = ["UNKNOWN", "Entry", "Fingerprint", "Taxonomy", "load"]

UNKNOWN = "unknown"
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
    owner: str | None = None

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

    @property
    def stub(self) -> bool:
        """Whether the entry still lacks its content."""
        return bool(self.content.get("stub"))


@dataclass(frozen=True)
class Taxonomy:
    """All entries by id, in the order of their families."""

    version: str
    entries: Mapping[str, Entry]

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


def load(path: Path) -> Taxonomy:
    """Return the taxonomy of a bundle's `taxonomy.json`. Raises BundleError when it is missing, damaged or of another format."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise BundleError(f"{path}: taxonomy format {data['format']}, this version of trainwreck reads {FORMAT}")
        entries = {e["id"]: _entry(e) for e in data["entries"]}
        return Taxonomy(version=data["version"], entries=entries)
    except OSError as error:
        raise BundleError(
            f"{path}: cannot be read ({error.strerror}). `trainwreck taxonomy build` makes it."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{path}: damaged ({error}). Install trainwreck again, or build the bundle again.") from error


def _entry(data: dict[str, Any]) -> Entry:
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
                **f,
            )
            for f in fingerprints
        ),
    )
