"""The committed suites, against their floors."""

import json
from collections import Counter
from pathlib import Path

import pytest
import score

from trainwreck.bundle import DEFAULT
from trainwreck.taxonomy import load

ROOT = Path(__file__).parent.parent
SUITE = sorted((ROOT / "eval" / "suites" / "handwritten").glob("*.jsonl"))
CASES = list(score.incidents(SUITE))
LABELS = load(DEFAULT / "taxonomy.json").entries


def test_the_suite_is_sound():
    assert len(CASES) >= 120
    assert [i for i, n in Counter(c["id"] for c in CASES).items() if n > 1] == []
    assert {c["label"] for c in CASES} | {a for c in CASES for a in c.get("also", ())} == set(LABELS)
    assert all(c["source"] == "handwritten" and c["log"].strip() and c["group"] and c["wording"] for c in CASES)


def test_the_suite_scores_above_its_floor():
    scores = score.score(score.judge(CASES))
    assert score.below(scores, "handwritten") == []


@pytest.mark.parametrize("line", ['{"id": "x"}', "not json", "[]"])
def test_a_bad_suite_is_refused_with_file_and_line(tmp_path, line):
    good = json.dumps({"id": "a", "label": "healthy", "log": "x"})
    path = tmp_path / "suite.jsonl"
    path.write_text(f"{good}\n{line}\n")
    with pytest.raises(ValueError, match=r"suite\.jsonl:2"):
        list(score.incidents([path]))


def test_scores_count_what_they_say():
    def answer(label, predicted, confidence=0.5, correct=None, first=None, rank=None):
        return score.Answer(
            "i", label, predicted, confidence, "r", label == predicted if correct is None else correct, first, rank, ""
        )

    scores = score.score(
        [
            answer("a", "a", first=2, rank=2),
            answer("a", "b", confidence=0.95, first=1, rank=None),
            answer("b", "unknown"),
            answer("b", "c", correct=True),
        ]
    )
    assert (scores.cases, scores.top1, scores.answered, scores.confident_wrong) == (4, 0.5, 0.75, 0.25)
    assert scores.precision_answered == pytest.approx(2 / 3)
    assert scores.first_rank == 0.5
    # a: one hit, one miss; b: one hit, one miss, once said wrongly; unknown: said wrongly once
    assert scores.macro_f1 == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
