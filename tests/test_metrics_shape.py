"""The shape of a run, and the conditions of the taxonomy that read it."""

from __future__ import annotations

import json
import math
import random
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwreck.conditions import holds, names_in
from trainwreck.diagnosis import Line
from trainwreck.metrics import shape as shape_module
from trainwreck.metrics.formats import read_series
from trainwreck.metrics.shape import Shape, shape_of

TAXONOMY = Path(__file__).parents[1] / "taxonomy"


@cache
def conditions() -> tuple[tuple[str, dict[str, Any]], ...]:
    paths = [*sorted((TAXONOMY / "numerics").glob("*.yaml")), TAXONOMY / "outcome" / "healthy.yaml"]
    entries = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths]
    return tuple((e["id"], f) for e in entries for f in e["fingerprints"] if "metrics" in f)


def shape(log: str) -> Shape:
    lines = [Line(number, text, text) for number, text in enumerate(log.split("\n"), 1)]
    return shape_of(read_series(lines), lines)


def labels(log: str) -> set[str]:
    features = shape(log).features
    return {label for label, fingerprint in conditions() if holds(fingerprint["metrics"], features)}


def report(losses: list[float], norms: list[float] | None = None, start: int = 1000, by: int = 10, lr: str = "") -> str:
    rows = []
    for i, loss in enumerate(losses):
        norm = f" | grad_norm {norms[i]:.4g}" if norms else ""
        rows.append(f"step {start + i * by} | loss {loss:.5g}{norm}{lr}")
    return "\n".join(rows)


NAN, INF = math.nan, math.inf
STABLE = [2.31, 2.29, 2.30, 2.32, 2.28, 2.31, 2.30, 2.29]
EVEN = [0.30, 0.31, 0.29, 0.30, 0.31, 0.30, 0.29, 0.30]


def overfit(train: list[float], validation: list[float]) -> str:
    return "\n".join(
        f"Epoch {i} | Train Loss: {t} | Val Loss: {v}" for i, (t, v) in enumerate(zip(train, validation, strict=True))
    )


SKIP = "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to {}"
REPEATED = [0.9741, 1.3742, 1.2390, 0.9670]
CASES = {
    "the example: norm 1.2 to 1200, loss 2.3 to 9.9, then inf and nan": (
        "step 1 loss 2.3 grad_norm 1.2\nstep 2 loss 9.9 grad_norm 1200\n"
        "step 3 loss inf grad_norm inf\nstep 4 loss nan grad_norm nan",
        "transformer-divergence",
    ),
    "norm grows, hf filter hides the loss": (
        "\n".join(
            f"{{'loss': '{loss}', 'grad_norm': '{norm}', 'learning_rate': '5e-05', 'epoch': '{0.1 * i:.1f}'}}"
            for i, (loss, norm) in enumerate(
                [(2.3, 1.0), (2.3, 1.1), (2.5, 14), (3.9, 210), (8.1, 9000), (0, "nan"), (0, "nan")]
            )
        ),
        "transformer-divergence",
    ),
    "climbs to a high level and stays, norm back": (
        report([5.1, 5.08, 5.1, 5.8, 6.7, 7.3, 7.5, 7.6, 7.58, 7.6], [0.9, 1.1, 2.9, 46, 208, 88, 14, 3.1, 1.2, 0.9]),
        "transformer-divergence",
    ),
    "a jump of a hundredfold as the last point": (report([*STABLE, 4.1e6]), "transformer-divergence"),
    "stable, then nan at once": (report([*STABLE, NAN, NAN], [*EVEN, NAN, NAN]), "sudden-nan"),
    "stable, then nan as the last point": (report([*STABLE, NAN]), "sudden-nan"),
    "stable, then zero loss and nan norm": (report([*STABLE, 0.0, 0.0], [*EVEN, NAN, NAN]), "sudden-nan"),
    "only a late step is known": ("FloatingPointError: loss is nan at step 30100, loss = nan", "sudden-nan"),
    "nan from the first step": (report([NAN, NAN, NAN], [NAN, NAN, NAN], start=0, by=1), "nan-from-data"),
    "one jump that comes back": (report([*STABLE, 6.8, 3.0, 2.31, 2.30]), "loss-spike"),
    "a small jump as the last point": (report([*STABLE, 6.8]), "loss-spike"),
    "one nan that comes back": (report([*STABLE, NAN, 2.30, 2.31], [*EVEN, NAN, 0.3, 0.3]), "loss-spike"),
    "rises from the first steps": (
        report(
            [10.8, 11.1, 11.9, 12.5, 12.2, 13.4, 14.1, 13.8, 15.0], [1.9, 2.1, 2.6, 3.3, 2.9, 3.7, 4.2, 3.9, 4.8], 0, 1
        ),
        "learning-rate-too-high",
    ),
    "turns up where the warm-up ends": (
        report([4.11, 4.08, 4.04, 4.03, 4.02, 5.37, 6.11, 6.42, 6.57], [0.6, 0.6, 0.6, 0.6, 0.7, 1.9, 2.2, 2.0, 1.8]),
        "learning-rate-too-high",
    ),
    "scale halves to the floor": (
        "\n".join(SKIP.format(2**n, 2 ** (n - 1)) for n in range(8, 0, -1)),
        "fp16-overflow",
    ),
    "ten classes at ln 10": (report([2.3030, 2.3026, 2.3029, 2.3024, 2.3027, 2.3026]), "loss-plateau"),
    "gradient and loss exactly zero": (report([0.0] * 6, [0.0] * 6), "loss-plateau"),
    "epochs that repeat to the digit": (
        "\n".join(f"Epoch {e}, Step {i}, Loss: {v}" for e in (1, 2, 3) for i, v in enumerate(REPEATED)),
        "loss-plateau",
    ),
    "validation turns while training falls": (
        overfit([1.24, 0.69, 0.44, 0.25, 0.16, 0.10], [1.11, 0.97, 0.80, 0.94, 1.07, 1.22]),
        "overfitting",
    ),
    "falling loss": (report([4.1, 3.9, 3.7, 3.6, 3.5, 3.4], [0.4, 0.4, 0.5, 0.4, 0.4, 0.4]), "healthy"),
    "scale search, then steady training": (
        "\n".join(SKIP.format(2**n, 2 ** (n - 1)) for n in range(20, 15, -1)) + "\n" + report([4.1, 3.9, 3.7, 3.6]),
        "healthy",
    ),
    "bf16 megatron prints a scale of 1": (
        "\n".join(
            f" iteration {10 * i}/ 100 | lm loss: {4 - 0.1 * i:.2f}E+00 | loss scale: 1.0 | grad norm: 0.3 |"
            " number of skipped iterations:   0 | number of nan iterations:   0 |"
            for i in range(6)
        ),
        "healthy",
    ),
}


@pytest.mark.parametrize(("log", "expected"), CASES.values(), ids=list(CASES))
def test_conditions_name_one_class(log: str, expected: str) -> None:
    assert labels(log) == {expected}


QUIET = {
    "two reports": "step 1 loss 2.3\nstep 2 loss 2.9",
    "three noisy reports": "step 1 loss 1.82\nstep 2 loss 2.10\nstep 3 loss 1.73",
    "norms of a warm-up": report([10.9, 9.8, 8.1, 7.2, 6.6], [216, 40, 8, 3, 2], 0, 1),
    "adversarial losses wander": "\n".join(
        f"[1/9][{i}/9] Loss_D: {d} Loss_G: {g}"
        for i, (d, g) in enumerate([(1.4, 3), (3.9, 9.7), (7.1, 4), (0.5, 13), (9, 7)])
    ),
    "evaluation only": "\n".join(f"{{'eval_loss': {v}, 'epoch': {i}}}" for i, v in enumerate([1.0, 1.2, 1.5, 1.9])),
    "a converged run is flat, not at chance": report([1.482, 1.480, 1.481, 1.483, 1.479, 1.481]),
    "start-up at ln of the vocabulary": report([10.83, 10.82, 10.81, 10.80], None, 1, 1),
    "inf norms of skipped half-precision steps": report([2.3, 2.2, 2.1, 2.0, 1.9, 1.8], [INF, 0.4, 0.4, INF, 0.4, 0.4]),
    "noise of tiny batches": report(
        [1.34, 0.31, 0.65, 0.45, 0.65, 1.0, 0.71, 0.62, 0.43, 0.41, 0.47, 0.52, 0.41, 0.70]
    ),
}


@pytest.mark.parametrize("log", QUIET.values(), ids=list(QUIET))
def test_ordinary_runs_are_no_failure(log: str) -> None:
    assert labels(log) <= {"healthy"}


def test_falling_noisy_runs_rarely_look_like_a_failure() -> None:
    chance = random.Random(7)
    wrong = 0
    for _ in range(300):
        noise, length = chance.choice((0.01, 0.03, 0.1, 0.2)), chance.choice((6, 12, 40))
        falling = [2 + 3 * math.exp(-i / length) for i in range(length)]
        noisy = [value * math.exp(chance.gauss(0, noise)) for value in falling]
        wrong += not labels(report(noisy)) <= {"healthy"}
    assert wrong <= 3


def test_every_name_in_the_conditions_is_a_documented_feature_and_every_anchor_exists() -> None:
    documented = shape_module.__doc__ or ""
    anchors = (Shape.__doc__ or "") + Path(shape_module.__file__).read_text(encoding="utf-8")
    for _, fingerprint in conditions():
        for name in names_in(fingerprint["metrics"]):
            assert name in documented, name
        assert f"`{fingerprint['anchor']}`" in anchors, fingerprint["anchor"]


def test_every_feature_is_documented() -> None:
    documented = shape_module.__doc__ or ""
    for log, _ in CASES.values():
        for name in shape(log).features:
            assert name in documented or name.replace("loss_growth", "norm_growth") in documented, name


def test_growth_is_measured_against_the_level_before_the_run_up() -> None:
    features = shape(report([2.0, 2.0, 2.0, 2.0, 4.0, 20.0, NAN], [1, 1, 1, 1, 50, 400, NAN])).features
    assert features["loss_growth_before_nonfinite"] == pytest.approx(10.0)
    assert features["norm_growth_before_nonfinite"] == pytest.approx(400.0)
    assert features["reports_before_nonfinite"] == 6


def test_a_jump_of_a_negative_loss_keeps_its_meaning() -> None:
    features = shape(report([-4.1, -4.4, -4.3, -4.5, 40.0, -4.4, -4.3])).features
    assert features["loss_jump_recovered"] == 1
    assert features["loss_jump"] == pytest.approx(1 + (40 + 4.35) / 4.35)


def test_anchors_point_at_the_lines_to_quote() -> None:
    made = shape("starting\n" + report([*STABLE, NAN, NAN]))
    assert made.anchors["before_nonfinite"] == 8
    assert made.anchors["first_nonfinite"] == made.anchors["event"] == 9
    assert shape(report([*STABLE, 6.8, 2.3, 2.3])).anchors["jump"] == len(STABLE)


def test_summary_is_for_the_user_and_json_safe() -> None:
    summary = shape(report([2.3, 9.9, INF, NAN], [1.2, 1200, INF, NAN], start=10)).summary
    assert summary["last_finite_loss"] == 9.9
    assert summary["first_nonfinite_step"] == 30
    assert summary["grad_norm_growth"] == pytest.approx(1000)
    assert all(math.isfinite(value) for value in summary.values())


def test_progress_ends_where_an_error_follows() -> None:
    running = report([3.0, 2.9, 2.8])
    assert shape(running).features["ends_in_progress"] == 1
    assert shape(running + "\nTraceback (most recent call last):").features["ends_in_progress"] == 0
    assert shape(running + "\n" + "\n".join(f"line {i}" for i in range(20))).features["ends_in_progress"] == 0


def test_reports_at_lists_finite_losses() -> None:
    assert shape("start\n" + report([2.3, NAN, 2.2])).reports_at == (1, 3)


def test_a_rank_that_broke_first_speaks_for_the_run() -> None:
    lines = []
    for i in range(6):
        for rank in (0, 3):
            loss = "nan" if rank == 3 and i >= 4 else "2.3"
            lines.append(Line(len(lines) + 1, f"step {i} loss {loss}", "", rank=rank))
    made = shape_of(read_series(lines), lines)
    assert lines[made.anchors["first_nonfinite"]].rank == 3


NUMBERS = st.sampled_from(("0", "-0", "1e-320", "1e308", "-1e308", "1e999", "nan", "inf", "2.3", "2.31", "-4", "65536"))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(("loss", "grad_norm", "val_loss", "lr", "step", "loss scale")), NUMBERS), max_size=40
    )
)
def test_any_values_have_a_shape_that_json_can_hold(pairs: list[tuple[str, str]]) -> None:
    made = shape("\n".join(f"epoch {i // 4} {name}: {value}" for i, (name, value) in enumerate(pairs)))
    json.dumps(made.summary, allow_nan=False)


def test_a_long_run_costs_time_in_proportion() -> None:
    def seconds(reports: int) -> float:
        lines = [Line(i, t, t) for i, t in enumerate(report([2 + 0.01 * (i % 7) for i in range(reports)]).split("\n"))]
        series = read_series(lines)
        begin = time.perf_counter()
        shape_of(series, lines)
        return time.perf_counter() - begin

    # Eight times the reports: a quadratic step would take about 64 times as long.
    assert seconds(24_000) < 24 * max(seconds(3_000), 0.01)


def test_no_series_no_shape() -> None:
    assert shape("hello").features == {}
