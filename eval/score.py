"""Score the installed trainwreck on labelled incidents, and fail below a committed floor.

usage: python eval/score.py SUITE.jsonl [SUITE.jsonl ...] [--floor NAME] [--wrong] [--json FILE]

An incident is right when the answer is its `label` or one of its `also`. Exit code 1 below the floor, 2 for a bad suite.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import trainwreck

FLOORS = Path(__file__).parent / "floors.toml"
CONFIDENT = 0.9


@dataclass(frozen=True)
class Answer:
    """One case and what was said of it."""

    id: str
    label: str
    predicted: str
    confidence: float
    rule: str
    correct: bool
    first_rank: int | None
    predicted_rank: int | None
    note: str


@dataclass(frozen=True)
class Scores:
    """Shares in 0..1 over all cases, but for `precision_answered` (over answers other than `unknown`) and `macro_f1`."""

    cases: int
    top1: float
    answered: float
    precision_answered: float
    confident_wrong: float
    macro_f1: float
    first_rank: float | None


def incidents(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the incidents of JSON-lines files. Raises ValueError naming the file and line of a bad one."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        case = json.loads(line)
                        _ = case["id"], case["label"], case["log"]
                    except (ValueError, KeyError, TypeError) as error:
                        raise ValueError(f"{path}:{number}: not an incident ({error})") from error
                    yield case


def judge(cases: Iterable[dict[str, Any]]) -> list[Answer]:
    """Diagnose every case."""
    diagnoser = trainwreck.Diagnoser()
    answers = []
    for case in cases:
        found = diagnoser.diagnose(case["log"])
        answers.append(
            Answer(
                id=case["id"],
                label=case["label"],
                predicted=found.label,
                confidence=found.confidence,
                rule=found.why["rule"],
                correct=found.label in (case["label"], *case.get("also", ())),
                first_rank=case.get("first_rank"),
                predicted_rank=found.first_failure.rank if found.first_failure else None,
                note=case.get("note", ""),
            )
        )
    return answers


def score(answers: list[Answer]) -> Scores:
    """Return the scores of `answers`."""
    total = max(len(answers), 1)
    answered = [a for a in answers if a.predicted != "unknown"]
    ranked = [a for a in answers if a.first_rank is not None]
    hits: defaultdict[str, int] = defaultdict(int)
    misses: defaultdict[str, int] = defaultdict(int)
    for answer in answers:
        if answer.correct:
            hits[answer.label] += 1
        else:
            misses[answer.label] += 1
            misses[answer.predicted] += 1
    labels = hits.keys() | misses.keys()
    f1 = [2 * hits[label] / (2 * hits[label] + misses[label]) for label in labels]
    return Scores(
        cases=len(answers),
        top1=sum(a.correct for a in answers) / total,
        answered=len(answered) / total,
        precision_answered=sum(a.correct for a in answered) / max(len(answered), 1),
        confident_wrong=sum(not a.correct and a.confidence >= CONFIDENT for a in answered) / total,
        macro_f1=sum(f1) / max(len(f1), 1),
        first_rank=sum(a.predicted_rank == a.first_rank for a in ranked) / len(ranked) if ranked else None,
    )


def below(scores: Scores, name: str) -> list[str]:
    """Return what falls below floor `name` of `floors.toml`, in words."""
    floor = tomllib.loads(FLOORS.read_text(encoding="utf-8"))[name]
    found = [
        f"{m} {getattr(scores, m):.3f} < {floor[m]}"
        for m in ("top1", "precision_answered")
        if getattr(scores, m) < floor[m]
    ]
    if scores.confident_wrong > floor["confident_wrong_at_most"]:
        found.append(f"confident_wrong {scores.confident_wrong:.3f} > {floor['confident_wrong_at_most']}")
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suites", nargs="+", type=Path)
    parser.add_argument("--floor", help="a table of eval/floors.toml")
    parser.add_argument("--wrong", action="store_true", help="list the wrong answers")
    parser.add_argument("--json", type=Path, help="write scores and answers to this file")
    options = parser.parse_args()
    try:
        answers = judge(incidents(options.suites))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    scores = score(answers)
    if options.wrong:
        for a in answers:
            if not a.correct:
                print(f"{a.id:28s} {a.label:30s} said {a.predicted:30s} {a.confidence:.2f} {a.rule:10s} {a.note[:80]}")
    for name, value in asdict(scores).items():
        print(f"{name:20s} {value if isinstance(value, int) or value is None else format(value, '.3f')}")
    if options.json:
        options.json.write_text(
            json.dumps({"scores": asdict(scores), "answers": [asdict(a) for a in answers]}, indent=1)
        )
    failures = below(scores, options.floor) if options.floor else []
    for failure in failures:
        print(f"BELOW THE FLOOR: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
