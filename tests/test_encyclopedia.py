"""What an entry must hold to be worth reading, over all entries at once."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import score

from trainwreck.taxonomy_build import read_entries

ROOT = Path(__file__).parent.parent
ENTRIES = read_entries(ROOT / "taxonomy")
FIELDS = (
    "title", "owner", "retry", "retry_reason", "layer", "severity", "aliases", "tags", "summary", "root_cause", "mistaken_for", "symptoms",
    "affected", "scale", "confirm", "fix", "code", "verify", "prevent", "minutes_to_fix", "tell_apart", "related", "references",
    "fingerprints",
)  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["id"])
def test_an_entry_has_every_field(entry):
    assert [name for name in FIELDS if not entry.get(name)] == []
    assert entry["scale"].keys() == {"one", "sixty_four", "thousand"}
    assert {"primary", "fallback", "stopgap"} <= entry["fix"].keys()
    low, high = entry["minutes_to_fix"]
    assert 0 <= low <= high


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["id"])
def test_references_are_addresses_that_were_found_in_a_source(entry):
    for reference in entry["references"]:
        assert re.fullmatch(r"https?://[^\s<>\"']+", reference["url"])
        assert reference["found_in"].strip()


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def test_no_sentence_of_more_than_eight_words_stands_in_two_entries():
    said: defaultdict[str, set[str]] = defaultdict(set)
    for entry in ENTRIES:
        for text in texts(
            {key: value for key, value in entry.items() if key not in ("fingerprints", "references", "code")}
        ):
            for sentence in re.split(r"(?<=[.;:?!])\s+", text):
                if len(sentence.split()) > 8:
                    said[" ".join(sentence.split())].add(entry["id"])
    assert {sentence: ids for sentence, ids in said.items() if len(ids) > 1} == {}


def test_there_are_enough_fingerprints_and_their_sources_are_named():
    fingerprints = [f for entry in ENTRIES for f in entry["fingerprints"]]
    assert len(fingerprints) >= 900
    assert len({f["id"] for f in fingerprints}) == len(fingerprints)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["id"])
def test_every_text_fingerprint_has_an_example_and_a_near_miss(entry):
    lacking = [
        f["id"]
        for f in entry["fingerprints"]
        if "pattern" in f and not (f.get("examples") and f.get("counterexamples"))
    ]
    assert lacking == []


def test_neighbours_are_told_apart_in_the_handwritten_suite():
    cases = list(score.incidents(sorted((ROOT / "eval" / "suites" / "handwritten").glob("*.jsonl"))))
    answers: defaultdict[str, list[score.Answer]] = defaultdict(list)
    for answer in score.judge(cases):
        answers[answer.label].append(answer)
    pairs = {frozenset((entry["id"], question["id"])) for entry in ENTRIES for question in entry["tell_apart"]}
    told = 0
    for pair in pairs:
        one, other = sorted(pair)
        assert answers[one], f"the suite has no case of {one}"
        assert answers[other], f"the suite has no case of {other}"
        swapped = [a for a in answers[one] if a.predicted == other and not a.correct]
        swapped += [a for a in answers[other] if a.predicted == one and not a.correct]
        told += not swapped and all(any(a.correct for a in answers[side]) for side in (one, other))
    assert len(pairs) > 200
    assert told / len(pairs) >= 0.95
