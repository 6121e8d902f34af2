"""What healthy runs print: advice, fallbacks, counters that are 0. None of it may decide an answer."""

from pathlib import Path

import pytest
import score

import trainwreck
from trainwreck import tracebacks
from trainwreck.reading.text import read_lines
from trainwreck.scanning import Scanner

ROOT = Path(__file__).parent.parent
DIAGNOSER = trainwreck.Diagnoser()
SCANNER = Scanner(DIAGNOSER.taxonomy)
LINES = [
    line
    for path in sorted((ROOT / "eval" / "suites" / "noise").glob("*.txt"))
    for line in path.read_text(encoding="utf-8").split("\n")
    if line.strip() and not line.startswith("#")
]
HEALTHY = [
    case
    for case in score.incidents(sorted((ROOT / "eval" / "suites" / "handwritten").glob("*.jsonl")))
    if case["label"] == "healthy"
]
KEY_ERROR = """\
Traceback (most recent call last):
  File "/app/train.py", line 41, in <module>
    labels = batch['labels']
KeyError: 'labels'
"""


def roots(text: str) -> list[tuple[str, int]]:
    lines = read_lines(text)
    hits = SCANNER.hits(lines, tracebacks.parse(lines))
    return [(hit.fingerprint, hit.index) for hit in hits if hit.role == "root" and hit.specific]


def test_there_is_noise_enough():
    assert len(LINES) >= 180
    assert len(HEALTHY) >= 25


@pytest.mark.parametrize("line", LINES)
def test_noise_names_no_mechanism_and_does_not_hide_the_failure_after_it(line):
    assert roots(line + "\n") == []
    assert DIAGNOSER.diagnose(f"loading configuration\n{line}\nbuilding model\n{KEY_ERROR}").label == "key-error"


@pytest.mark.parametrize("case", HEALTHY, ids=lambda c: c["id"])
def test_on_a_healthy_log_nothing_fires_as_root_that_progress_does_not_follow(case):
    fired = roots(case["log"])
    if fired:
        found = DIAGNOSER.diagnose(case["log"])
        assert found.label == "healthy"
        assert "followed by progress" in found.why["because"]
