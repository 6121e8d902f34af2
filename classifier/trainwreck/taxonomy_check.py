"""Checks the YAML entries by what they claim: every example of a fingerprint must match, no counterexample may.

Needs PyYAML and jsonschema (extra `train` or `dev`); nothing at run time imports this.
"""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwreck.errors import TaxonomyError, UsageError
from trainwreck.reading.text import read_lines
from trainwreck.scanning import Scanner
from trainwreck.taxonomy import Taxonomy, load
from trainwreck.taxonomy_build import compile_taxonomy, entry_files, raw_entries, read_entries, serialise
from trainwreck.tracebacks import parse

__all__ = ["Report", "run_examples"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found."""

    entries: int
    examples: int
    """Examples and counterexamples that were run."""
    problems: tuple[str, ...]
    """One sentence each: file or fingerprint, and what is wrong."""


def run_examples(folder: Path, ids: Collection[str] = ()) -> Report:
    """Validate the entries under `folder` (only `ids`, if given) and run the examples of their fingerprints.

    Each goes the way of a log: reading, traceback parsing, scanning. Raises UsageError for an id without file. An entry
    outside `ids` that does not compile is a problem too: all are compiled together.
    """
    paths = entry_files(folder)
    known = {path.stem for path in paths}
    for name in ids:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
            raise UsageError(f"{folder}: no entry {name!r}" + (f". Did you mean {', '.join(close)}?" if close else ""))
    chosen = [path for path in paths if not ids or path.stem in ids]
    # All of it at once, where the build stops at the first.
    if problems := [problem for _, _, wrong in raw_entries(folder, chosen) for problem in wrong]:
        return Report(len(chosen), 0, tuple(problems))
    try:
        entries = read_entries(folder)
        taxonomy = _compiled(folder)
    except TaxonomyError as error:
        return Report(len(chosen), 0, (str(error),))
    found = _hit_finder(taxonomy)
    run = 0
    for entry in entries:
        if ids and entry["id"] not in ids:
            continue
        for fingerprint in entry.get("fingerprints", ()):
            name = fingerprint["id"]
            for text, wanted in _claims(fingerprint):
                run += 1
                if (name in found(text)) is not wanted:
                    problems.append(f"{name}: {'does not match its example' if wanted else 'matches'} {text[:160]!r}")
    return Report(len(chosen), run, tuple(problems))


def _claims(fingerprint: dict[str, Any]) -> list[tuple[str, bool]]:
    """(text, whether the fingerprint must match it)."""
    positive = [(text, True) for text in fingerprint.get("examples", ())]
    return positive + [(text, False) for text in fingerprint.get("counterexamples", ())]


def _hit_finder(taxonomy: Taxonomy) -> Callable[[str], set[str]]:
    scanner = Scanner(taxonomy)

    def found(text: str) -> set[str]:
        lines = read_lines(text)
        return {hit.fingerprint for hit in scanner.hits(lines, parse(lines))}

    return found


def _compiled(folder: Path) -> Taxonomy:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "taxonomy.json"
        path.write_text(serialise(compile_taxonomy(folder)), encoding="utf-8")
        return load(path)
