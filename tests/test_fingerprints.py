"""Every fingerprint's own examples and counterexamples, through the reader and the traceback parser."""

from pathlib import Path

import pytest

from trainwreck.bundle import DEFAULT
from trainwreck.taxonomy import load
from trainwreck.taxonomy_check import run_examples

FOLDER = Path(__file__).parent.parent / "taxonomy"
TAXONOMY = load(DEFAULT / "taxonomy.json")


def test_every_example_matches_and_no_counterexample_does():
    report = run_examples(FOLDER)
    assert report.problems == ()
    assert report.examples > 1_000


@pytest.mark.parametrize("entry", TAXONOMY.entries.values(), ids=lambda e: e.id)
def test_every_failure_class_with_a_textual_sign_has_six_fingerprints(entry):
    # The optimisation that went wrong and the two outcomes are told by numbers, if by anything.
    if entry.family not in ("numerics", "outcome"):
        assert sum(f.pattern is not None for f in entry.fingerprints) >= 6


def test_every_entry_is_written():
    assert [entry.id for entry in TAXONOMY.entries.values() if entry.content.get("stub")] == []
