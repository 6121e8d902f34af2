"""Metric series → the shape of the run: a flat table of numbers that conditions in the taxonomy compare.

Nothing here decides: no threshold of a failure class lives in this file. A feature that cannot be computed is absent,
and a comparison with an absent feature is false.

Notation: `v` finite training losses in order, `g` finite gradient norms, `med` median, `R(b, x) = 1 + (x - b) / |b|`
(which is x / b for a positive b, and keeps its meaning for negative losses). "The event" is the first report whose
loss, or else gradient norm, is not finite.

| feature | formula |
|---|---|
| reports, grad_reports, validations | number of points of the training loss, the gradient norm, the validation loss |
| nonfinite | 1 if a training loss is not finite, or the gradient norm ends not finite or more often than not |
| nonfinite_loss, nonfinite_norm, nonfinite_validation | 1 if any such point is not finite |
| reports_before_nonfinite, reports_after_nonfinite | finite reports of the loss before the event, reports from it on |
| nonfinite_is_first | 1 if no finite report comes before the event |
| nonfinite_step | step printed with the event |
| recovered_after_nonfinite | 1 if the last two losses are finite, not zero, within 1.5 of the level before, and the \
last norm is finite |
| loss_growth_before_nonfinite | max over windows of 4, 12 and 40 finite losses up to the event of R(med(first half), \
max(last 3)); at least two points |
| norm_growth_before_nonfinite | the same of the gradient norm, the event's own report included |
| loss_jump | R(med(up to 20 losses before), loss) of the largest finite jump: 6 robust deviations and 1.2 at least |
| loss_jump_deviations | (loss - med) / (1.4826 MAD + 0.01 abs(med)) there |
| loss_jump_over_before | (loss - med) / (highest of the 20 before - med) there |
| loss_jump_is_last | 1 if the jump is the last report |
| loss_jump_recovered | 1 if the median of the last (up to 5) losses is back within 0.3 of the jump's height |
| reports_before_jump | points before the jump |
| loss_growth, norm_growth | R(med(first half of what came before), peak), the largest of windows of 4, 12 and 40 up \
to the peak of the finite series |
| loss_end_ratio | R(baseline of loss_growth, med(last 3 losses)): where the loss stays after its peak |
| loss_end_spread | (max - min) / abs(med) of the last 3 losses |
| loss_rise | R(med(first third), med(last third)) |
| loss_trend | Kendall's tau of loss against order, -1 to 1, over up to 60 evenly spread points |
| loss_above_start | share of the second half that lies above the highest of the first third |
| loss_over_lowest | R(lowest, end), both medians of windows of a tenth of the run (3 to 20 reports): how far the loss has left its best |
| reports_since_lowest, rise_since_lowest | reports since the middle of that lowest window; Kendall's tau from there to the end |
| loss_oscillation | med(abs(v[i+1] - v[i])) / abs(med(v)) |
| flat | (90th - 10th percentile) / abs(med(v)); 0 for a constant |
| chance_distance, chance_classes | smallest abs(med(v) / ln n - 1) over plausible n, and that n |
| chance_accuracy_distance | abs(n med(accuracy) - 1) for that n |
| loss_zero | 1 if every loss is exactly 0 |
| zeros_fall | last loss before the zeros / med(first third of the losses before them) |
| loss_over_first, loss_above_first | R(first loss, med(last third)); share of the later losses above the first |
| zeros_at_end | how many losses at the end are exactly 0 after losses that were not |
| norm_max, norm_last | largest and last finite norm |
| lr_last, lr_max, lr_rising_at_event, lr_zero | learning rate; at the event, the jump, or the end; \
1 if it was still rising there; 1 if no printed rate is above 1e-10 |
| accuracy_max | training accuracy, or that of the validation |
| repeats_exactly | whole epochs (three reports or more, not all the same) that repeat the one before to the digit |
| first_step, last_step, steps_total, first_epoch, epochs_total | of the training loss |
| validation_rise | R(best validation loss, last) |
| train_fall | R(training loss at the best validation, training loss at the last one) |
| evaluations_since_best | evaluations after the best one |
| validation_flat, validation_chance_distance | as flat and chance_distance, of the validation loss |
| validation_rises | share of them that rise over the one before |
| scale_last | loss scale at the end |
| scale_halvings_in_a_row | falls of the scale in its last stretch that never rises |
| scale_floor | 1 if the scale ends at 1 or less after it fell, or with a skipped step |
| skipped_steps_in_a_row | steps skipped since the last report of a loss without one |
| reports_after_skip | reports of a finite loss after the last skipped step |
| error_lines | lines with error text before the last metric line |
| reports_after_error | reports of any metric after the last of them; all of them when there is none |
| metric_reports | points of the longest series other than rates, scales and speeds |
| adversarial | 1 if the log prints losses of adversarial or reinforcement learning |
| ends_in_progress | 1 if a metric line is among the last 5 lines with text, no error text follows it, and no line that was printed \
long after it |
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from trainwreck.diagnosis import Line
from trainwreck.metrics.formats import WANDERING, Point, Series

__all__ = ["ERROR_TEXT", "SUMMARY_NAMES", "Shape", "shape_of"]

SUMMARY_NAMES = frozenset((
    "reports", "first_step", "last_step", "first_loss", "lowest_loss", "lowest_loss_step", "last_finite_loss", "first_nonfinite_step",
    "climb_from_step", "usual_grad_norm", "highest_grad_norm", "loss_growth", "grad_norm_growth", "last_grad_norm",
    "learning_rate", "loss_scale", "best_validation_loss", "last_validation_loss",
))  # fmt: skip

# Class counts and vocabulary sizes whose uniform cross entropy ln(n) a model that learns nothing sits at.
_CHANCE = (
    2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 64, 100, 200, 256, 365, 1000, 10000, 21841, 21843, 28996, 30522, 31998, 32000,
    32128, 49152, 50257, 50265, 50304, 50432, 65024, 100277, 100352, 102400, 119547, 128256, 129280, 151936, 152064,
    200064, 250002, 250880, 256000, 257216, 262144,
)  # fmt: skip
_WINDOWS = (4, 12, 40)
_NO_REPORT = frozenset(("learning_rate", "loss_scale", "skipped", "skipped_total", "throughput"))
_LOOKED_BACK = 20_000
ERROR_TEXT = re.compile(
    r"Traceback \(most recent|(?:Error|Exception|Interrupt)\b|\bFATAL\b|\b[Kk]illed\b|\bABORT|[Aa]bort(?:ed|ing)\b"
    r"|\bSIG[A-Z]{3,6}\b|core dumped|\bFAILED\b|CANCELLED|exit(?:ed with)? code:? -?[1-9]|non-finite|diverged"
    r"|out of memory|[Tt]imed? ?out\b|enforce fail|is not finite|stopping training"
    r"|\bsignal \d+ \(|terminated by|\b(?:rc|ret|retval)\s*[=:] ?-?[1-9]|[Bb]us error|^Hangup\b|limit exceeded|Alarm clock"
    r"|breakpoint trap|Bad system call|[Ff]loating point exception|User defined signal"
    r"|marked build as failure|^Job \d+ failed|exited unexpectedly"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the metric series of a run look like."""

    features: dict[str, float] = field(default_factory=dict)
    """The table above."""
    anchors: dict[str, int] = field(default_factory=dict)
    """Index of the line to quote: `first_report`, `last_report`, `lowest` (middle of the lowest
    stretch of the loss), `climb` (first of the rising reports that lead to the
    first non-finite one, or to the peak), `first_nonfinite`, `before_nonfinite`, `jump`,
    `last_scale`, `best_validation`, `last_validation`, `repeat`. `event` is always there when
    a loss or a norm is: the non-finite report, else the jump, else the last report."""
    reports_at: tuple[int, ...] = ()
    """Indices of the lines that report a training loss of any rank, finite for the rank that the features describe
    (of the longest series where the log prints no loss),
    ascending: what counts as progress."""
    summary: dict[str, Any] = field(default_factory=dict)
    """For the user, JSON-safe: `reports`, `first_step`, `last_step`, `first_loss`, `lowest_loss`, `lowest_loss_step`, `last_finite_loss`,
    `first_nonfinite_step`, `climb_from_step`, `usual_grad_norm`, `highest_grad_norm`, `loss_growth`,
    `grad_norm_growth`, `last_grad_norm`, `learning_rate`, `loss_scale`, `best_validation_loss`,
    `last_validation_loss`. The names are `SUMMARY_NAMES`: sentences in the taxonomy may use them like facts."""


def shape_of(series: Sequence[Series], lines: Sequence[Line]) -> Shape:
    """Return the shape of the run that `series` (read from `lines`) describe; an empty one when there are none."""
    if not series:
        return Shape()
    loss, rank = _main(series)
    reported = [list(s.points) for s in series if s.name not in _NO_REPORT]
    progress = loss or max(reported, key=len, default=[])
    norm = _longest(series, "grad_norm", rank)
    validation = _longest([s for s in series if s.split == "validation"], "loss", rank)
    # Every rank's: another rank's progress does not show that this one went on.
    same = [s for s in series if s.name == "loss" and s.split != "validation"] if loss else []
    reports = {p.index for s in same for p in s.points} | {p.index for p in progress}
    finite_reports = reports - {p.index for p in progress if not math.isfinite(p.value)}
    made = Shape(reports_at=tuple(sorted(finite_reports)))
    features, anchors = made.features, made.anchors
    features["reports"] = float(len(loss))
    features["grad_reports"] = float(len(norm))
    features["validations"] = float(len(validation))
    features["adversarial"] = float(any(s.name.startswith("aux:") and _wanders(s.name) for s in series))
    if loss:
        anchors |= {"first_report": loss[0].index, "last_report": loss[-1].index, "event": loss[-1].index}
        _extent(features, loss)
    elif norm:
        anchors |= {"first_report": norm[0].index, "last_report": norm[-1].index, "event": norm[-1].index}
    _nonfinite(made, loss, norm, validation)
    finite = [p for p in loss if math.isfinite(p.value)]
    norms = [p for p in norm if math.isfinite(p.value)]
    if not features["nonfinite"]:
        _finite_loss(made, finite)
        _finite_norm(made, norms)
    if norms:
        features["norm_max"] = max(p.value for p in norms)
        features["norm_last"] = norms[-1].value
    _rates(made, _longest(series, "learning_rate", rank))
    _accuracy(features, series, rank)
    _overfit(made, finite, [p for p in validation if math.isfinite(p.value)])
    _scales(made, _longest(series, "loss_scale", rank), _longest(series, "skipped", rank), loss)
    _climb(made, loss, norm)
    _progress(features, series, lines)
    _summarise(made, finite, norms, validation)
    return made


def _wanders(name: str) -> bool:
    return not WANDERING.isdisjoint(name.removeprefix("aux:").split("_"))


def _main(series: Sequence[Series]) -> tuple[list[Point], int | None]:
    """Return the training loss of the rank that matters: the first that is not finite, else the one that says most."""
    best: tuple[tuple[float, int], list[Point], int | None] | None = None
    losses: dict[int | None, list[Series]] = {}
    for one in series:
        if one.name == "loss" and one.split != "validation":
            losses.setdefault(one.rank, []).append(one)
    for rank, own in losses.items():
        longest = max(own, key=lambda s: len(s.points))
        points = list(longest.points)
        # "Loss is nan, stopping" stands in another wording than the reports, and belongs to them.
        extra = [p for s in own if s is not longest for p in s.points if not math.isfinite(p.value)]
        known = {p.index for p in points}
        if extra:
            points = sorted([*points, *(p for p in extra if p.index not in known)], key=lambda p: p.index)
        first = next((p.index for p in points if not math.isfinite(p.value)), math.inf)
        candidate = ((float(first), -len(points)), points, rank)
        if best is None or candidate[0] < best[0]:
            best = candidate
    return (best[1], best[2]) if best else ([], None)


def _longest(series: Sequence[Series], name: str, rank: int | None) -> list[Point]:
    named = [s for s in series if s.name == name]
    named = [s for s in named if s.rank == rank] or named
    return list(max(named, key=lambda s: len(s.points)).points) if named else []


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else ordered[middle - 1] / 2 + ordered[middle] / 2


def _ratio(base: float, value: float) -> float:
    return 1.0 + (value - base) / max(abs(base), 1e-12)


def _extent(features: dict[str, float], loss: list[Point]) -> None:
    steps = [p.step for p in loss if p.step is not None]
    if steps:
        features["first_step"], features["last_step"] = steps[0], steps[-1]
        features["steps_total"] = max(steps) - min(steps)
    epochs = [p.epoch for p in loss if p.epoch is not None]
    if epochs:
        features["first_epoch"] = epochs[0]
        features["epochs_total"] = max(epochs) - min(epochs)


def _nonfinite(made: Shape, loss: list[Point], norm: list[Point], validation: list[Point]) -> None:
    features, anchors = made.features, made.anchors
    bad_loss = [p for p in loss if not math.isfinite(p.value)]
    bad_norm = [p for p in norm if not math.isfinite(p.value)]
    features["nonfinite_loss"] = float(bool(bad_loss))
    features["nonfinite_norm"] = float(bool(bad_norm))
    features["nonfinite_validation"] = float(any(not math.isfinite(p.value) for p in validation))
    # A half-precision run prints an infinite norm for each step that its scaler skips, and goes on.
    norm_counts = bool(bad_norm) and (not math.isfinite(norm[-1].value) or len(bad_norm) * 2 > len(norm))
    features["nonfinite"] = float(bool(bad_loss) or norm_counts)
    if not features["nonfinite"]:
        return
    candidates = bad_loss[:1] + (bad_norm[:1] if norm_counts else [])
    event = min(candidates, key=lambda p: p.index)
    reports = loss or norm
    before = [p for p in reports if p.index < event.index and math.isfinite(p.value)]
    after = [p for p in reports if p.index >= event.index]
    features["reports_before_nonfinite"] = float(len(before))
    features["reports_after_nonfinite"] = float(len(after))
    features["nonfinite_is_first"] = float(not before)
    if event.step is not None:
        features["nonfinite_step"] = event.step
    anchors["event"] = anchors["first_nonfinite"] = event.index
    if before:
        anchors["before_nonfinite"] = before[-1].index
    norms_before = [p.value for p in norm if p.index <= event.index and math.isfinite(p.value)]
    # The step that broke may print its loss as finite and its norm not, or the other way round.
    losses_before = [p.value for p in loss if p.index <= event.index and math.isfinite(p.value)]
    for name, values in (("loss", losses_before), ("norm", norms_before)):
        if len(values) >= 2:
            features[f"{name}_growth_before_nonfinite"] = _run_up(values)
    tail = loss[-2:]
    level = _median([p.value for p in before[-20:]]) if before else None
    back = len(tail) == 2 and all(math.isfinite(p.value) and p.value != 0 and p.index > event.index for p in tail)
    within = level is None or all(_ratio(level, p.value) <= 1.5 for p in tail if math.isfinite(p.value))
    features["recovered_after_nonfinite"] = float(back and within and (not norm or math.isfinite(norm[-1].value)))


def _run_up(values: list[float]) -> float:
    """Return how far the last three values stand above the level that came before them."""
    growths = []
    for size in _WINDOWS:
        window = values[-size:]
        half = (len(window) + 1) // 2 if len(window) > 2 else 1
        growths.append(_ratio(_median(window[:half]), max(window[half:][-3:])))
    return max(growths)


def _peak(values: list[float]) -> tuple[float, float]:
    """Return (growth, baseline) of the peak of `values` over what came before it."""
    at = max(range(len(values)), key=values.__getitem__)
    best = (1.0, values[0])
    for size in _WINDOWS:
        before = values[max(0, at - size) : at]
        if before:
            base = _median(before[: (len(before) + 1) // 2])
            best = max(best, (_ratio(base, values[at]), base))
    return best


def _finite_loss(made: Shape, points: list[Point]) -> None:
    features, anchors = made.features, made.anchors
    v = [p.value for p in points]
    n = len(v)
    if n < 2:
        return
    features["loss_growth"], base = _peak(v)
    features["loss_end_ratio"] = _ratio(base, _median(v[-3:]))
    features["loss_end_spread"] = (max(v[-3:]) - min(v[-3:])) / max(abs(_median(v[-3:])), 1e-12)
    _jump(made, points, v)
    if n < 3:
        return
    features["flat"], features["chance_distance"], features["chance_classes"] = _flatness(v)
    features["loss_zero"] = float(not any(v))
    if any(v):
        features["zeros_at_end"] = float(next(i for i, value in enumerate(reversed(v)) if value))
        if features["zeros_at_end"]:
            anchors["event"] = points[n - int(features["zeros_at_end"])].index
            live = v[: n - int(features["zeros_at_end"])]
            features["zeros_fall"] = live[-1] / max(abs(_median(live[: max(1, len(live) // 3)])), 1e-12)
    third = max(1, n // 3)
    features["loss_rise"] = _ratio(_median(v[:third]), _median(v[-third:]))
    features["loss_over_first"] = _ratio(v[0], _median(v[-third:]))
    features["loss_above_first"] = sum(value > v[0] for value in v[1:]) / (n - 1)
    late = v[n // 2 :]
    highest = max(v[:third])
    features["loss_above_start"] = sum(value > highest for value in late) / len(late)
    features["loss_oscillation"] = _median([abs(b - a) for a, b in pairwise(v)]) / max(abs(_median(v)), 1e-12)
    features["loss_trend"] = _kendall(v)
    _since_lowest(made, points, v)
    _repeats(made, points)


def _since_lowest(made: Shape, points: list[Point], v: list[float]) -> None:
    size = min(20, max(3, len(v) // 10))
    if len(v) < 2 * size:
        return
    levels = [_median(v[i : i + size]) for i in range(len(v) - size + 1)]
    at = min(range(len(levels)), key=levels.__getitem__)
    lowest = at + size // 2
    made.features["loss_over_lowest"] = _ratio(levels[at], levels[-1])
    made.features["reports_since_lowest"] = float(len(v) - lowest)
    if len(v) - lowest >= 3:
        made.features["rise_since_lowest"] = _kendall(v[lowest:])
    made.anchors["lowest"] = points[lowest].index
    if (step := points[lowest].step) is not None:
        made.summary["lowest_loss_step"] = int(step)


def _flatness(v: list[float]) -> tuple[float, float, float]:
    """Return (flat, chance_distance, chance_classes) of a loss."""
    ordered, middle = sorted(v), _median(v)
    spread = ordered[math.ceil(0.9 * (len(v) - 1))] - ordered[math.floor(0.1 * (len(v) - 1))]
    levels = [(math.log(classes), classes) for classes in _CHANCE]
    # fairseq prints its loss in bits.
    levels += [(math.log2(classes), classes) for classes in _CHANCE if classes >= 10000]
    level, nearest = min(levels, key=lambda one: abs(middle - one[0]))
    return (spread / max(abs(middle), 1e-12) if spread else 0.0, abs(middle / level - 1), float(nearest))


def _kendall(v: list[float]) -> float:
    sample = v if len(v) <= 60 else [v[i * (len(v) - 1) // 59] for i in range(60)]
    score = sum(
        (sample[j] > sample[i]) - (sample[j] < sample[i]) for i in range(len(sample)) for j in range(i + 1, len(sample))
    )
    return score / (len(sample) * (len(sample) - 1) / 2)


def _jump(made: Shape, points: list[Point], v: list[float]) -> None:
    best: tuple[float, float, int, float] | None = None
    for i in range(2, len(v)):
        # Most reports end here, so that a long run costs no median for each.
        if v[i] - v[i - 1] <= 0.1 * abs(v[i - 1]) or v[i] <= max(v[max(0, i - 20) : i]):
            continue
        before = v[max(0, i - 20) : i]
        base = _median(before)
        deviation = 1.4826 * _median([abs(value - base) for value in before]) + 0.01 * abs(base) + 1e-12
        ratio, deviations = _ratio(base, v[i]), (v[i] - base) / deviation
        if ratio >= 1.2 and deviations >= 6 and (best is None or ratio > best[0]):
            best = (ratio, deviations, i, base)
    if best is None:
        return
    ratio, deviations, at, base = best
    after = v[at + 1 :]
    features = made.features
    features["loss_jump"] = ratio
    features["loss_jump_deviations"] = deviations
    features["loss_jump_is_last"] = float(not after)
    features["loss_jump_recovered"] = float(bool(after) and _median(after[-5:]) <= base + 0.3 * (v[at] - base))
    # A short tail is still on its way down when its last report has come most of the way.
    if after and after[-1] <= base + 0.3 * (v[at] - base):
        features["loss_jump_recovered"] = 1.0
    highest = max(v[max(0, at - 20) : at]) - base
    features["loss_jump_over_before"] = (v[at] - base) / max(highest, 1e-12)
    features["reports_before_jump"] = float(at)
    made.anchors["jump"] = made.anchors["event"] = points[at].index


def _finite_norm(made: Shape, points: list[Point]) -> None:
    if len(points) < 2:
        return
    g = [p.value for p in points]
    made.features["norm_growth"], _ = _peak(g)


def _climb(made: Shape, loss: list[Point], norm: list[Point]) -> None:
    """Find the first of the rising reports that lead to the first non-finite one, or to the peak."""
    event = made.anchors.get("first_nonfinite")
    for points in (norm, loss):
        finite = [p for p in points if math.isfinite(p.value) and (event is None or p.index <= event)]
        if len(finite) < 3:
            continue
        at = max(range(len(finite)), key=lambda i: finite[i].value)
        window = [p.value for p in finite[max(0, at - 40) : at]]
        if not window:
            continue
        usual = _median(window[: (len(window) + 1) // 2])
        if points is norm:
            made.summary["usual_grad_norm"], made.summary["highest_grad_norm"] = usual, finite[at].value
        start = at
        while start and finite[start - 1].value > 2 * abs(usual):
            start -= 1
        if start and finite[at].value > 2 * abs(usual) and "climb" not in made.anchors:
            made.anchors["climb"] = finite[start].index
            if (step := finite[start].step) is not None:
                made.summary["climb_from_step"] = int(step)


def _repeats(made: Shape, points: list[Point]) -> None:
    epochs: dict[int, list[Point]] = {}
    for point in points:
        if point.epoch is not None and point.epoch == int(point.epoch):
            epochs.setdefault(int(point.epoch), []).append(point)
    repeats = 0
    numbers = sorted(epochs)
    for one, other in pairwise(numbers):
        first, second = [p.value for p in epochs[one]], [p.value for p in epochs[other]]
        if other == numbers[-1]:
            first = first[: len(second)]
        if len(first) >= 3 and first == second and len(set(first)) >= 3:
            repeats += 1
            made.anchors.setdefault("repeat", epochs[other][0].index)
    made.features["repeats_exactly"] = float(repeats)


def _rates(made: Shape, points: list[Point]) -> None:
    if not points:
        return
    features = made.features
    features["lr_last"] = points[-1].value
    features["lr_max"] = max(p.value for p in points)
    features["lr_zero"] = float(len(points) >= 3 and features["lr_max"] <= 1e-10)
    event = made.anchors.get("event", points[-1].index)
    until = [p.value for p in points if p.index <= event] or [points[0].value]
    features["lr_rising_at_event"] = float(len(until) >= 2 and until[-1] > until[-2] * 1.0001)


def _accuracy(features: dict[str, float], series: Sequence[Series], rank: int | None) -> None:
    training = [s for s in series if s.split != "validation"]
    points = _longest(training, "accuracy", rank) or _longest(series, "accuracy", rank)
    values = [p.value for p in points if math.isfinite(p.value)]
    if len(values) >= 3:
        features["accuracy_max"] = max(values)
        fraction = _median(values) / (100.0 if max(values) > 1.5 else 1.0)
        if "chance_classes" in features:
            features["chance_accuracy_distance"] = abs(fraction * features["chance_classes"] - 1)


def _overfit(made: Shape, loss: list[Point], validation: list[Point]) -> None:
    if len(validation) < 2 or not loss:
        return
    features, anchors = made.features, made.anchors
    features["validation_flat"], features["validation_chance_distance"], _ = _flatness([p.value for p in validation])
    best = min(range(len(validation)), key=lambda i: validation[i].value)
    since = validation[best:]
    features["validation_rise"] = _ratio(since[0].value, since[-1].value)
    features["evaluations_since_best"] = float(len(since) - 1)
    if len(since) > 1:
        rises = sum(b.value > a.value for a, b in pairwise(since))
        features["validation_rises"] = rises / (len(since) - 1)
    at_best = _level_at(loss, validation, best)
    at_last = _level_at(loss, validation, len(validation) - 1)
    features["train_fall"] = _ratio(at_best, at_last)
    anchors["best_validation"], anchors["last_validation"] = since[0].index, since[-1].index


def _level_at(loss: list[Point], validation: list[Point], at: int) -> float:
    """Return the training loss that belongs to an evaluation: of the reports since the one before, up to five."""
    start = validation[at - 1].index if at else -1
    between = [p.value for p in loss if start < p.index <= validation[at].index]
    if not between:
        earlier = [p.value for p in loss if p.index <= validation[at].index]
        between = earlier[-1:] or [loss[0].value]
    return _median(between[-5:])


def _scales(made: Shape, scale: list[Point], skipped: list[Point], loss: list[Point]) -> None:
    features = made.features
    last_skip = skipped[-1].index if skipped else None
    if last_skip is not None:
        features["reports_after_skip"] = float(
            sum(p.index > last_skip and math.isfinite(p.value) and p.value != 0 for p in loss)
        )
        skips = {p.index for p in skipped}
        good = max((p.index for p in loss if p.index not in skips and math.isfinite(p.value)), default=-1)
        features["skipped_steps_in_a_row"] = sum(p.value for p in skipped if p.index > good)
    if not scale:
        return
    values = [p.value for p in scale]
    start = len(values) - 1
    while start and values[start - 1] >= values[start]:
        start -= 1
    falls = sum(b < a for a, b in pairwise(values[start:]))
    # The message of a skipped step names the scale after the fall, so the first one is a fall too.
    falls += bool(skipped) and skipped[0].index == scale[start].index
    features["scale_last"] = values[-1]
    features["scale_halvings_in_a_row"] = float(falls)
    fell = falls > 0 or values[0] > values[-1]
    features["scale_floor"] = float(values[-1] <= 1 and (fell or last_skip is not None))
    made.anchors["last_scale"] = scale[-1].index


def _progress(features: dict[str, float], series: Sequence[Series], lines: Sequence[Line]) -> None:
    reported = [s for s in series if s.name not in _NO_REPORT]
    last = max((s.points[-1].index for s in reported), default=-1)
    features["metric_reports"] = float(max((len(s.points) for s in reported), default=0))
    points: dict[str | None, list[int]] = {}
    for one in reported:
        for point in one.points:
            points.setdefault(lines[point.index].file, []).append(point.index)
    features["ends_in_progress"] = float(bool(points) and all(_goes_on(sorted(at), lines) for at in points.values()))
    first_looked = max(0, last - _LOOKED_BACK)
    errors = [i for i in range(first_looked, last + 1) if ERROR_TEXT.search(lines[i].text[:500])]
    features["error_lines"] = float(len(errors))
    since = errors[-1] if errors else -1
    features["reports_after_error"] = float(max((sum(p.index > since for p in s.points) for s in reported), default=0))


def _goes_on(at: Sequence[int], lines: Sequence[Line]) -> bool:
    """Whether the file whose reports stand at `at` ends with them: at most five lines of text after, no error, no long time."""
    when = [time for index in at[-20:] if (time := lines[index].time) is not None]
    gaps = sorted((b - a).total_seconds() for a, b in pairwise(when) if (a.tzinfo is None) == (b.tzinfo is None))
    long = max(600.0, 10 * gaps[len(gaps) // 2]) if gaps else 600.0
    texts = 0
    for line in lines[at[-1] + 1 :]:
        if line.file != lines[at[-1]].file:
            break
        texts += bool(line.text.strip())
        if texts > 5 or ERROR_TEXT.search(line.text[:500]):
            return False
        comparable = when and line.time is not None and (line.time.tzinfo is None) == (when[-1].tzinfo is None)
        if comparable and line.time is not None and (line.time - when[-1]).total_seconds() > long:
            return False
    return True


def _summarise(made: Shape, finite: list[Point], norms: list[Point], validation: list[Point]) -> None:
    features = made.features
    summary: dict[str, Any] = {"reports": int(features["reports"])}
    for name in ("first_step", "last_step"):
        if name in features:
            summary[name] = int(features[name])
    if finite:
        summary["first_loss"] = finite[0].value
        summary["lowest_loss"] = min(p.value for p in finite)
        summary["last_finite_loss"] = finite[-1].value
    if "nonfinite_step" in features:
        summary["first_nonfinite_step"] = int(features["nonfinite_step"])
    for shown, names in (
        ("loss_growth", ("loss_growth_before_nonfinite", "loss_growth")),
        ("grad_norm_growth", ("norm_growth_before_nonfinite", "norm_growth")),
        ("learning_rate", ("lr_last",)),
        ("loss_scale", ("scale_last",)),
    ):
        value = next((features[name] for name in names if name in features), None)
        if value is not None and math.isfinite(value):
            summary[shown] = value
    if norms:
        summary["last_grad_norm"] = norms[-1].value
    good = [p.value for p in validation if math.isfinite(p.value)]
    if good:
        summary["best_validation_loss"], summary["last_validation_loss"] = min(good), good[-1]
    made.summary.update(summary)
