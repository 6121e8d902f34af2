"""A small taxonomy of its own for tests of the machinery, so that they do not change with the content."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from trainwreck.diagnosis import Line
from trainwreck.taxonomy import Entry, Fingerprint, Taxonomy
from trainwreck.taxonomy_build import required_literals

_COUNTER = itertools.count()


def make_fingerprint(label: str, pattern: str, role: str = "root", specific: bool = True, **more: Any) -> Fingerprint:
    name = f"{label}/{next(_COUNTER)}"
    return Fingerprint(
        id=name, label=label, role=role, specific=specific, pattern=pattern, literals=required_literals(pattern), **more
    )


def make_entry(
    label: str,
    *fingerprints: Fingerprint,
    family: str = "tensors",
    layer: str = "program",
    severity: str = "fatal",
    **more: Any,
) -> Entry:
    return Entry(
        id=label,
        title=label.title(),
        family=family,
        owner="code",
        retry="stop",
        layer=layer,
        summary="",
        content={"severity": severity, **more},
        fingerprints=fingerprints,
    )


def make_taxonomy(*entries: Entry) -> Taxonomy:
    base = (make_entry("healthy", family="outcome"), make_entry("unknown", family="outcome"))
    given = {entry.id for entry in entries}
    return Taxonomy(version="test", entries={e.id: e for e in (*entries, *(b for b in base if b.id not in given))})


@pytest.fixture
def as_lines() -> Callable[..., list[Line]]:
    def make(text: str, **fields: Any) -> list[Line]:
        return [Line(number=n, text=t, quote=t, **fields) for n, t in enumerate(text.split("\n"), 1)]

    return make
