"""Lines of a log → metric series, for the formats that common trainers print.

Nearly every format is a row of `name, separator, number` on one line, so one expression finds such pairs and the name
decides what each one is. Tables (a header, then rows), CSV and messages about the loss scale are read apart. Nothing
here backtracks: quantifiers are possessive or bounded, and only the first 2,000 characters of a line are looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from trainwreck.diagnosis import Line

__all__ = ["WANDERING", "Point", "Series", "Split", "read_series"]

Split = Literal["train", "validation", ""]


@dataclass(frozen=True, slots=True)
class Point:
    """One reported value."""

    index: int
    """Index of the line in the sequence that was read."""
    value: float
    """May be nan or infinite."""
    step: float | None = None
    epoch: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """All reports of one metric of one split by one rank, in the order of the log."""

    name: str
    """`loss`, `grad_norm`, `learning_rate`, `loss_scale`, `accuracy`, `perplexity`, `throughput`; `skipped` (steps that
    the loss scaler skipped) and `skipped_total` (their running count); `aux:<name>` for parts of a loss and for losses
    of reinforcement learning and adversarial training; any other metric under its own name."""
    split: Split
    """`""` where the log does not say; a training loop's own report, as a rule."""
    rank: int | None
    points: tuple[Point, ...]


_WIDEST = 2000

_NUMBER = (
    r"[-+]?(?:(?:\d{1,3}(?:,\d{3}){1,4}(?![\d,])|\d{1,40}+)(?:\.\d{0,40}+)?(?:[eE][-+]?\d{1,4})?"
    r"|\.\d{1,40}+(?:[eE][-+]?\d{1,4})?|[nN][aA][nN]|[iI][nN][fF](?:inity)?)"
)
_PAIR = re.compile(
    r"(?<![\w/.@])(?P<key>[A-Za-z_][\w/.@-]{0,80}+|\|g\||‖g‖)(?:'s\s)?(?P<key2>[A-Za-z_]{0,40}+)?"
    r"['\"]?(?:\s{0,30}+[:=|]\s{0,30}+(?:is\s)?|\s{1,30}+(?:is\s{1,3})?)"
    rf"['\"]?\[?['\"]?(?:tensor\(|array\(|np\.float\d\d\()?(?P<value>{_NUMBER})(?![\w(]|\.\w)"
)
_GLUED = re.compile(r"\b(step|loss)_(-?\d{1,20}(?:\.\d{1,20})?|nan|inf)(?!\w)")
_BEFORE = re.compile(r"(?:([A-Za-z][\w/]{0,20}) )?([A-Za-z][\w/]{0,20}) {1,2}$")
_MARK = re.compile(
    r"(?<![\w/.])(?:(train|trn|training|learn)"
    r"|(valid(?:ation)?(?:_\d)?|val|eval(?:uation)?|test|testing|dev|holdout))(?![\w/.=-])",
    re.IGNORECASE,
)
_EPOCH = re.compile(
    r"(?<![A-Za-z])epochs?(?:\((?:train|val|valid|test)\))?['\"]?[\s:=|#\[]{0,4}['\"]?(\d{1,6}(?:\.\d{1,20})?)",
    re.IGNORECASE,
)
_EPOCH_AFTER = re.compile(r"(?<![\w.])(\d{1,6})epoch\b")
_EPOCH_SHORT = re.compile(r"[Ee]p\.?\s{1,4}(\d{1,6})")
_EVALUATING = re.compile(
    r"\W{0,12}(?:running |starting |begin )?(?:eval|validat)[a-z]{0,8}(?: (?:begin|start)[a-z]{0,4})?\W{0,12}$",
    re.IGNORECASE,
)
_OF_TOTAL = re.compile(r"(?<![\d./(])(\d{1,12})\s{0,4}/\s{0,8}\d{1,12}(?![\d/])")
_IN_BRACKETS = re.compile(r"\[\s{0,8}(\d{1,12})\]")
_SOURCE_FRAME = re.compile(r"\s{0,12}File \"[^\"]{0,300}\", line \d")
_ARITHMETIC = re.compile(r"\s{0,2}(?:[*+/%]|-\s?[A-Za-z_(]\w{0,30}[.(*+)])")
_RAISED = re.compile(r"(?:[A-Za-z_][\w.]{0,60})?(?:Error|Exception|Warning|Diverged): ")
_SCALED_TO = re.compile(
    r"(?:reducing(?: loss scale)? to|scale(?:\s?is)? (?:adjusted )?to:?|scale_after:|new scale|->"
    rf"|(?:exiting|small|decrease to):)\s{{0,3}}({_NUMBER})",
    re.IGNORECASE,
)
_TIMES = re.compile(r"\s{0,2}\*\s{0,2}(0?\.\d{1,6})")
_SCALE_IS = re.compile(rf"scale\s{{0,2}}[:=]?\s{{0,2}}({_NUMBER})", re.IGNORECASE)
_SKIPPED = re.compile(
    r"overflow|skipp|found.inf|not finite|finite=false|optimizer not run"
    r"|reducing loss scale|scale is (?:too )?small|cond: true"
)
_NAN_ITERATIONS = re.compile(r"number of (nan|skipped) iterations:\s{0,6}(\d{1,9})")
_YOLO_ROW = re.compile(rf"\s{{0,20}}(\d{{1,6}})/\d{{1,6}}\s{{1,12}}[\d.]{{1,8}}[GM]B?((?:\s{{1,16}}{_NUMBER}){{2,6}})")
_DARKNET = re.compile(rf"\s{{0,8}}(\d{{1,9}}): ({_NUMBER}), {_NUMBER} avg loss, ({_NUMBER}) rate")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_CELL_WORD = re.compile(r"[A-Za-z#][\w /@().%:-]{0,40}$")
_NORM_SIGN = re.compile(
    r"(?:\|{1,2}|‖)\s?(?:g|grad|grads|gradient|grad_norm)\s?(?:\|{1,2}|‖)(?:_?2)?(?!\S)", re.IGNORECASE
)
_IS_NUMBER = re.compile(rf"{_NUMBER}[%s]?$")

# Cheap test that runs on every line: a line with none of these words holds no metric.
_WORDS = (
    "loss", "norm", "scale", "xent", "mse", "cost", "entropy", "acc", "val", "train", " ce ", "‖g‖", "|g|", "skipp",
    "learn", "lr", "trn",
)  # fmt: skip

_STEP_KEYS = {
    "global_step": 9, "num_updates": 9, "trainer/global_step": 9, "total_timesteps": 8, "step": 7, "steps": 7,
    "iteration": 6, "iterations": 6, "training_iteration": 6, "iter": 6, "it": 5, "up": 5, "update": 4, "updates": 4,
    "batch": 3,
}  # fmt: skip
_TRAIN = {"train", "trn", "training", "tr", "learn"}
_VALIDATION = {"val", "valid", "validation", "eval", "evaluation", "dev", "test", "testing", "holdout", "heldout"}
# Words that qualify a loss without making it another one.
_PLAIN = {
    "avg", "average", "mean", "total", "tot", "reduced", "step", "epoch", "batch", "running", "cur", "current",
    "global", "per", "value", "iter", "overall", "the", "and", "lm", "with", "minibatch", "mini", "all", "reports",
    "a", "of", "model", "metrics",
}  # fmt: skip
# Words that make a name a setting or a record rather than a report.
_SETTING = {
    "best", "min", "max", "clip", "clipped", "clipping", "weight", "weights", "coef", "coeff", "coefficient",
    "lambda", "smoothing", "threshold", "fn", "func", "function", "type", "ratio", "target", "patience", "delta",
    "decay", "warmup", "init", "initial", "num", "time", "improvement", "reduction", "window", "limit", "ignore",
    "tolerance", "gap", "param", "params", "parameter", "grads", "no", "previous", "old", "std", "var", "factor",
    "multiplier", "eps", "layer", "edit", "config", "args", "sec", "seconds", "ms",
}  # fmt: skip
# Parts of adversarial and reinforcement learning: they wander in good runs.
WANDERING = {
    "d", "g", "gen", "generator", "disc", "discriminator", "adv", "adversarial", "gan", "policy", "pg", "critic",
    "actor", "vf", "q", "qf", "kl", "reward", "rewards", "entropy", "alpha", "surrogate", "ppo",
}  # fmt: skip
_LOSS_LIKE = {
    "ce", "xent", "nll", "mse", "cost", "logloss", "binary logloss", "multi logloss", "mlogloss", "cross entropy",
    "language cross entropy", "rmse", "l 1", "l 2",
}  # fmt: skip
_ACCURACY_PARTS = {"acc", "accuracy", "binary", "categorical", "sparse", "token", "top", "1", "mean", "masked", "train"}
_OTHER = {
    "f", "f1", "auc", "bleu", "wer", "cer", "iou", "map", "rouge", "mcc", "recall", "precision", "mae", "dice", "ter",
}  # fmt: skip
_SPEED = {
    "tps", "wps", "ips", "tok/s", "tok/sec", "tokens_per_second", "tokens_per_sec", "samples_per_second",
    "samples/sec", "tokens/s", "tokens/sec", "throughput", "train_samples_per_second", "train_tokens_per_second",
    "tokens/s/device", "interval_samples_per_second",
}  # fmt: skip

_Key = tuple[str, str, Split]  # kind (`metric`, `loss_like`, `wandering`, `bare`), canonical name, split


_NEVER = -1000


@dataclass(slots=True)
class _State:
    """What earlier lines of one speaker said that later ones rely on."""

    step: float | None = None
    epoch: float | None = None
    at: int = -1
    header: tuple[str, ...] = ()
    cells: str = ""
    source_next: bool = False
    evaluating: int = _NEVER
    """Index of a line that announced an evaluation."""


@dataclass(slots=True)
class _Found:
    series: dict[tuple[str, Split, int | None], list[Point]] = field(default_factory=dict)
    loss_like: dict[str, int] = field(default_factory=dict)
    """Names of series that stand in for the loss where no line names one, in the order in which they came up."""
    wandering: bool = False

    def add(self, name: str, split: Split, rank: int | None, point: Point) -> None:
        self.series.setdefault((name, split, rank), []).append(point)


def read_series(lines: Sequence[Line]) -> tuple[Series, ...]:
    """Return the metric series that `lines` report, in the order in which they begin. Never raises on any text."""
    found = _Found()
    states: dict[tuple[str | None, str], _State] = {}
    previous: tuple[int, str | None, dict[str, float]] | None = None
    for index, line in enumerate(lines):
        text = line.text if len(line.text) <= _WIDEST else line.text[:_WIDEST]
        low = text.lower()
        state = states.get((line.file, line.speaker))
        if state is None:
            state = states[line.file, line.speaker] = _State()
        if state.source_next or "file" in low:
            was_source, state.source_next = state.source_next, bool(_SOURCE_FRAME.match(text))
            if was_source:
                continue
        if state.header and (row := _row(text, state)):
            for key, value in row:
                _store(found, key, line.rank, Point(index, value, _counted(state.step), _counted(state.epoch)))
            continue
        for word in _WORDS:
            if word in low:
                break
        else:
            if "epoch" in low or "step" in low or "batch" in low or "iter" in low or _detector(text):
                _context_or_row(found, text, index, line.rank, state)
            continue
        if (header := _header(text)) is not None:
            state.cells, state.header = header
            continue
        seen = dict(_read_line(found, text, low, index, line.rank, state))
        # One physical line of `\r` updates shows each value many times; only its changes are reports.
        if previous and previous[:2] == (line.number, line.file) and seen and seen == previous[2]:
            _forget(found, index)
        elif seen:
            previous = (line.number, line.file, seen)
    return _finish(found)


def _forget(found: _Found, index: int) -> None:
    for key in [key for key, points in found.series.items() if points[-1].index == index]:
        found.series[key].pop()
        if not found.series[key]:
            del found.series[key]


def _store(found: _Found, key: _Key, rank: int | None, point: Point) -> None:
    kind, name, split = key
    if kind == "wandering":
        found.wandering = True
    elif kind == "loss_like":
        found.loss_like.setdefault(name, point.index)
    found.add(name, split, rank, point)


def _finish(found: _Found) -> tuple[Series, ...]:
    series = found.series
    # Adversarial and reinforcement learning have no loss that must fall: none of their parts may stand in for it.
    if not found.wandering:
        for splits in (("train", ""), ("validation",)):
            if any(name == "loss" and split in splits for name, split, _ in series):
                continue
            stand_in = next(
                (n for n in found.loss_like if any(name == n and s in splits for name, s, _ in series)), None
            )
            for name, split, rank in list(series):
                if name == stand_in and split in splits:
                    series["loss", split, rank] = series.pop((name, split, rank))
    made = [Series(name, split, rank, tuple(points)) for (name, split, rank), points in series.items()]
    return tuple(sorted(made, key=lambda one: one.points[0].index))


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _read_line(
    found: _Found, text: str, low: str, index: int, rank: int | None, state: _State
) -> Iterator[tuple[str, float]]:
    """Add what one line reports and yield (name and split, value)."""
    if "avg loss" in low and (match := _DARKNET.match(text)):
        count, loss, rate = (_number(part) for part in match.groups())
        for name, value in (("loss", loss), ("learning_rate", rate)):
            found.add(name, "", rank, Point(index, value, count, None))
            yield name, value
        return
    pairs, step, epoch = _pairs(text, low)
    if not pairs and "val" in low and _EVALUATING.match(text):
        state.evaluating = index
    if pairs and _RAISED.match(text) and all(math.isfinite(value) for _, value in pairs):
        # `RuntimeError: loss 7.3 is 2 x its best` repeats a report.
        return
    if epoch is not None:
        # A new epoch makes the step of an earlier line stale.
        state.step, state.epoch, state.at = (step, epoch, index)
    elif step is not None:
        state.step, state.at = step, index
    else:
        step = state.step if index - state.at <= 60 else None
    if epoch is None and index - state.at <= 5000:
        epoch = state.epoch
    if "skipping" in low and any(key[1] == "grad_norm" and not math.isfinite(value) for key, value in pairs):
        # "The grad norm is nan. Skipping updating the model." tells of a step that was not taken: no weight has changed.
        pairs = [(("metric", "skipped", ""), 1.0)]
    if "scale" in low or "skip" in low or "overflow" in low:
        pairs = _scale_message(text, low, pairs)
    has_loss = any(key[1] == "loss" or key[0] == "loss_like" for key, _ in pairs)
    if (
        not has_loss
        and "nan iterations" in low
        and any(m[1] == "nan" and m[2] != "0" for m in _NAN_ITERATIONS.finditer(low))
    ):
        pairs = [*pairs, (("metric", "loss", ""), math.nan)]
    bare = [pair for pair in pairs if pair[0][0] == "bare"]
    if bare:
        pairs = [pair for pair in pairs if pair[0][0] != "bare"]
        if (
            not has_loss
            and {split for (_, _, split), _ in bare} == {"train", "validation"}
            and not any(k[1] == "accuracy" for k, _ in pairs)
        ):
            pairs += [(("metric", "loss", split), value) for (_, _, split), value in bare]
    # A rate or a scale alone, with no step and nothing else, is a line of settings.
    if all(key[1] in ("learning_rate", "loss_scale", "throughput") for key, _ in pairs) and step is None:
        return
    done: set[tuple[str, str]] = set()
    evaluating = index - state.evaluating <= 3
    for key, value in pairs:
        if evaluating and not key[2]:
            key = (key[0], key[1], "validation")
        if (key[1], key[2]) not in done:
            done.add((key[1], key[2]))
            _store(found, key, rank, Point(index, value, _counted(step), _counted(epoch)))
            yield f"{key[1]} {key[2]}", value


def _pairs(text: str, low: str) -> tuple[list[tuple[_Key, float]], float | None, float | None]:
    pairs: list[tuple[_Key, float]] = []
    step: float | None = None
    weight = 0
    marks: list[tuple[int, Split]] = []
    marked = False
    for match in _PAIR.finditer(text):
        key, value = match["key"], match["value"]
        known = _STEP_KEYS.get(key.lower().rstrip("."))
        if known is not None:
            # A number of steps has no exponent: `1e999` would be infinite.
            if (
                known > weight
                and value[0].isdigit()
                and "e" not in value.lower()
                and text[match.end() : match.end() + 1] != "%"
            ):
                step, weight = _number(value), known
            continue
        start, end = match.span()
        before = _BEFORE.search(text, max(0, start - 44), start)
        words = " ".join(w for w in before.groups() if w and w.lower() not in ("nan", "inf")) if before else ""
        named = _classify(f"{key} {match['key2']}" if match["key2"] else key, words)
        # `loss = 0.5 * loss` is a line of source code.
        if named is None or ("=" in match[0] and _ARITHMETIC.match(text, end)):
            continue
        if not named[2] and named[1] not in ("learning_rate", "loss_scale", "throughput", "grad_norm"):
            if not marked:
                marked = True
                marks = [(mark.start(), "train" if mark[1] else "validation") for mark in _MARK.finditer(text)]
            earlier = [split for at, split in marks if at < start]
            if earlier:
                named = (named[0], named[1], earlier[-1])
        pairs.append((named, _number(value)))
    if "loss_" in low:
        for match in _GLUED.finditer(low):
            if match[1] == "step":
                step = value if math.isfinite(value := _number(match[2])) else None
            elif "." in match[2] or not match[2][-1].isdigit():
                pairs.append((("metric", "loss", ""), _number(match[2])))
    epoch: float | None = None
    if "ep" in low:
        found = _EPOCH.search(text) or _EPOCH_AFTER.search(text) or _EPOCH_SHORT.match(text)
        epoch = float(found[1]) if found else None
    if step is None and pairs:
        # `[epoch/epochs][batch/batches]`: the last one is the inner loop.
        totals = _OF_TOTAL.findall(text, 0, 200)
        if totals:
            step = float(totals[-1])
        elif bracket := _IN_BRACKETS.search(text):
            step = float(bracket[1])
        if step is not None and step == epoch and len(totals) <= 1:
            step = None
    return pairs, step, epoch


def _split_words(name: str) -> list[str]:
    return [word.lower() for word in _CAMEL.findall(name)]


@lru_cache(maxsize=8192)
def _classify(key: str, before: str) -> _Key | None:
    """Return what `key`, printed after the words `before`, is; None for what is no metric."""
    lower = key.lower().strip("-.")
    if lower in _SPEED:
        return ("metric", "throughput", "")
    if lower in ("|g|", "‖g‖", "gnorm", "grad") or lower.endswith("/gnorm"):
        return ("metric", "grad_norm", "")
    if lower in _TRAIN or lower in _VALIDATION:
        return (
            ("bare", lower, "train" if lower in _TRAIN else "validation") if before.lower() not in ("best",) else None
        )
    own = _split_words(key)
    words = own
    if own and own[-1] in ("loss", "norm", "scale", "rate", "value", "perplexity", "ppl", "accuracy", "acc", "entropy"):
        prior = _split_words(before)
        words = prior + own
    kinds = set(words)
    if "cross" in kinds:
        kinds.discard("entropy")
    if kinds & _SETTING:
        return None
    split: Split = "validation" if kinds & _VALIDATION else "train" if kinds & _TRAIN else ""
    core = [
        word
        for word in words
        if word not in _TRAIN and word not in _VALIDATION and word not in _PLAIN and not word.isdigit()
    ]
    if "scale" in kinds or "scaler" in kinds:
        return ("metric", "loss_scale", "") if kinds & {"loss", "grad", "amp", "scaler"} else None
    if "norm" in kinds or "gnorm" in kinds:
        return _norm(own, kinds, core)
    if "lr" in kinds or {"learning", "rate"} <= kinds or own[:2] == ["l", "r"]:
        return ("metric", "learning_rate", "")
    if "loss" in kinds:
        rest = [word for word in core if word != "loss"]
        inside = [word for word in rest if word in own]
        wandering = WANDERING & (set(rest) if "cross" not in rest else set(rest) - {"entropy"})
        if not inside and not wandering and "value" not in own:
            return ("metric", "loss", split)
        name = "aux:" + "_".join(
            word for word in words if word not in _TRAIN and word not in _VALIDATION and word != "lm"
        )
        if wandering or ("value" in own and own[-1] != "value"):
            return ("wandering", name, split)
        return ("loss_like", name, split)
    joined = " ".join(core)
    if joined in _LOSS_LIKE:
        return ("loss_like", joined.replace(" ", "_"), split)
    return _other_metric(words, kinds, core, split)


def _norm(own: list[str], kinds: set[str], core: list[str]) -> _Key | None:
    rest = set(core) - {"grad", "gradient", "norm", "gnorm", "g", "l", "optim", "unclipped", "actor", "before"}
    gradient = bool(kinds & {"grad", "gradient", "gnorm", "g"}) or own == ["norm"]
    return ("metric", "grad_norm", "") if gradient and not rest else None


def _other_metric(words: list[str], kinds: set[str], core: list[str], split: Split) -> _Key | None:
    if kinds & {"acc", "accuracy"}:
        if set(core) <= _ACCURACY_PARTS and not kinds & {"5", "3", "10"}:
            return ("metric", "accuracy", split)
        return ("metric", "_".join(words), split)
    if kinds & {"ppl", "perplexity"}:
        return ("metric", "perplexity", split)
    if kinds & {"kl", "reward", "entropy"}:
        return ("metric", "aux:" + "_".join(core), split)
    if kinds & _OTHER and len(core) <= 4:
        return ("metric", "_".join(word for word in words if word not in _VALIDATION and word not in _TRAIN), split)
    return None


def _scale_message(text: str, low: str, pairs: list[tuple[_Key, float]]) -> list[tuple[_Key, float]]:
    """Return `pairs` with what a loss scaler's message says: a skipped step, and the scale after it."""
    counts = {match[1]: int(match[2]) for match in _NAN_ITERATIONS.finditer(low)}
    if counts.get("skipped"):
        pairs = [*pairs, (("metric", "skipped", ""), float(counts["skipped"]))]
    if "skipped=" in low and (match := re.search(r"\bskipped=(\d{1,9})\b", low)):
        pairs = [*pairs, (("metric", "skipped_total", ""), float(match[1]))]
    elif "number of" not in low and _SKIPPED.search(low) and "scale" in low:
        scale: float | None = None
        if matches := list(_SCALED_TO.finditer(text)):
            scale = _number(matches[-1][1])
            if times := _TIMES.match(text, matches[-1].end()):
                scale *= float(times[1])
        elif match := _SCALE_IS.search(text):
            scale = _number(match[1])
        pairs = [pair for pair in pairs if pair[0][1] != "loss_scale"]
        if scale is not None:
            pairs = [*pairs, (("metric", "loss_scale", ""), scale), (("metric", "skipped", ""), 1.0)]
    return pairs


def _detector(text: str) -> bool:
    return ("G " in text or "M " in text) and _YOLO_ROW.match(text) is not None


def _context_or_row(found: _Found, text: str, index: int, rank: int | None, state: _State) -> None:
    """Read a line without a metric word: a detector's row, or a heading that gives step or epoch to the lines below."""
    if match := _YOLO_ROW.match(text):
        for name, value in zip(("box", "cls", "dfl", "l1"), match[2].split(), strict=False):
            point = Point(index, _number(value), None, float(match[1]))
            _store(found, ("loss_like", f"aux:{name}_loss", "train"), rank, point)
        return
    head = text[:200]
    _, step, epoch = _pairs(head, head.lower())
    if epoch is not None:
        # The heading of an epoch ends an evaluation that was announced before it.
        state.evaluating = _NEVER
        state.step, state.epoch, state.at = step, epoch, index
    elif step is not None:
        state.step, state.at = step, index


def _cells(text: str, how: str) -> list[str]:
    if how == "|":
        return [cell.strip() for cell in text.strip().strip("|").split("|")]
    if how == ",":
        return [cell.strip() for cell in text.split(",")]
    if how == "\t":
        return [cell.strip() for cell in text.strip().split("\t")]
    return text.split() if how == " " else re.split(r"\s{2,20}", text.strip())


def _without_norm_signs(text: str) -> str:
    """Return a header with `|g|` as `gnorm`: its bars part no cells. Left alone where other bars do part them."""
    if "‖" not in text and "|" not in text:
        return text
    plain = _NORM_SIGN.sub("gnorm", text)
    return text if "|" in plain else plain


def _header(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Return how a table's cells are separated and what they are called, if the line is a table's header."""
    stripped = _without_norm_signs(text.strip())
    if not stripped[:1].isalpha() and stripped[:1] != "|":
        return None
    # A notebook's table of two columns, `Step  Training Loss`, as it is pasted.
    cells = [cell for cell in re.split(r"\t|\s{2,20}", stripped) if cell]
    if (
        len(cells) == 2
        and cells[0].lower() in ("step", "epoch")
        and cells[1].lower() in ("training loss", "train_loss", "loss")
    ):
        return "\t" if "\t" in stripped else "  ", tuple(cells)
    for how in (",", "|", "\t", "  ", " "):
        if how not in stripped:
            continue
        cells = _cells(stripped, how)
        if not 3 <= len(cells) <= 60 or not all(_CELL_WORD.match(cell) for cell in cells if cell) or not cells[0]:
            continue
        if cells[0].lower() not in ("epoch", "step", "iter", "iteration", "e", "ep", "epochs", "steps"):
            continue
        if any(_column(cell) for cell in cells[1:]):
            return how, tuple(cells)
    return None


def _column(cell: str) -> _Key | None:
    before, _, last = cell.rpartition(" ")
    key = _classify(f"{last}_loss", "") if before.lower() == "loss" else _classify(last, before)
    if key and key[0] == "bare":
        return ("metric", "loss", key[2])
    return key


def _counted(count: float | None) -> float | None:
    """A step or an epoch, if it can be one."""
    return count if count is not None and abs(count) < 1e15 else None


def _row(text: str, state: _State) -> list[tuple[_Key, float]] | None:
    """Return the metrics of a table's row and note its step and epoch; None if the line is no row of the open table."""
    stripped = text.lstrip()
    if not stripped or not (stripped[0].isdigit() or stripped[0] == "|"):
        return None
    cells = _cells(text, state.cells)
    if len(cells) != len(state.header):
        cells = text.split()
        if len(cells) != len(state.header):
            return _detector_row(text, state)
    if not _IS_NUMBER.match(cells[0]):
        return None
    row: list[tuple[_Key, float]] = []
    step: float | None = None
    epoch: float | None = None
    for name, cell in zip(state.header, cells, strict=True):
        if not _IS_NUMBER.match(cell):
            continue
        value = _number(cell.rstrip("%s"))
        if name.lower() in ("epoch", "e", "ep"):
            epoch = value if math.isfinite(value) else None
        elif name.lower() in _STEP_KEYS or name == "#":
            step = value if math.isfinite(value) else None
        elif (key := _column(name)) and key[1] != "throughput":
            row.append((key, value))
    if row:
        state.step, state.epoch = step, epoch
    return row or None


def _detector_row(text: str, state: _State) -> list[tuple[_Key, float]] | None:
    """Read `31/100  7.82G  1.209  0.8465 ...  640: 100%|###`: the row is longer than its header."""
    match = _YOLO_ROW.match(text)
    if match is None:
        return None
    state.step, state.epoch = None, float(match[1])
    names = [name for name in state.header if name.lower().endswith(("loss", "box", "obj", "cls", "total", "om"))]
    row: list[tuple[_Key, float]] = []
    for name, value in zip(names, match[2].split(), strict=False):
        key = _column(name) or ("loss_like", f"aux:{name.lower()}_loss", "")
        row.append(((key[0], key[1], "train"), _number(value)))
    return row or None
