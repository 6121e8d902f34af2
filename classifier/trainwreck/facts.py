"""Facts: typed values that fingerprints take from a log, and sentences that use them.

The suffix of a fact's name gives its type: `_bytes` (int), `_seconds` (float), `_count`, `_rank`, `_step` (int), `_float` (float),
`_path`, `_shape`, `_name` (str).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["SUFFIXES", "fill", "placeholders", "show", "typed"]

SUFFIXES = ("_bytes", "_seconds", "_count", "_rank", "_step", "_float", "_path", "_shape", "_name")

# PyTorch printed "GB" and meant 2**30 until 2.1, the kernel prints "kB" and means 1024: every unit here is binary.
_BYTES = {"": 1, "b": 1, "byte": 1, "bytes": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SECONDS = {
    "": 1.0,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
}
_NUMBER = re.compile(r"\s*([-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z]*)")
_CLOCK = re.compile(r"(?:(\d+)[-d ]\s*)?(\d+):(\d\d):(\d\d)(?:[.,]\d+)?$")
_CLAUSE = re.compile(r"\[\[([^\[\]]*)\]\]")
_FACT = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_SPACES = re.compile(r"(?<=\S) {2,}(?=\S)")
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\|([^{}]*)\}")


def typed(name: str, text: str) -> Any:
    """Return the value of fact `name` read from `text`, or None when `text` does not hold one of that type."""
    text = text.strip()
    if name.endswith(("_path", "_shape", "_name")):
        return text.strip("'\"`") or None
    if name.endswith("_seconds") and (clock := _CLOCK.match(text)):
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    match = _NUMBER.match(text)
    if not match:
        lowered = text.lower().lstrip("+-")
        return float(text) if name.endswith("_float") and lowered in ("inf", "nan", "infinity") else None
    number, unit = float(match[1].replace(",", "")), match[2].lower()
    if not abs(number) < 1e18:
        return None  # no size, time or count; "1e999" and 400 digits must not become an int that cannot be made
    if name.endswith("_bytes"):
        scale = _BYTES.get(unit) or _BYTES.get(unit.removesuffix("b").removesuffix("i"))
        return int(number * scale) if scale else None
    if name.endswith("_seconds"):
        scale_s = _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s")) or 1.0
        if unit in ("milliseconds", "millisecond", "msec"):
            scale_s = 1e-3
        return number * scale_s
    if name.endswith("_float"):
        return number
    return int(number)


def show(name: str, value: Any) -> str:
    """Return `value` of fact `name` as people write it: `2.5 GiB`, `30 min`, `1,024`."""
    if name.endswith("_bytes") and isinstance(value, (int, float)):
        size = float(value)
        for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
            if abs(size) < 1024 or unit == "TiB":
                return f"{size:.0f} B" if unit == "B" else f"{size:.2f}".rstrip("0").rstrip(".") + f" {unit}"
            size /= 1024
    if name.endswith("_seconds") and isinstance(value, (int, float)):
        if value < 120:
            return f"{value:g} s"
        return f"{value / 60:.4g} min" if value < 7200 else f"{value / 3600:.3g} h"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def fill(template: str, facts: Mapping[str, Any]) -> str:
    """Return `template` with the facts of this run.

    `{name|words}` becomes that fact, or `words` where the log did not give it. `[[... {name} ...]]` is said only where the log gave
    every fact in it. Braces and brackets of any other form (code, JSON) stay as they are.
    """

    def clause(match: re.Match[str]) -> str:
        wanted = [name[1] for name in _FACT.finditer(match[1])]
        if not wanted:
            return match[0]
        if any(facts.get(name) is None for name in wanted):
            return ""
        return _FACT.sub(lambda name: show(name[1], facts[name[1]]), match[1])

    def one(match: re.Match[str]) -> str:
        value = facts.get(match[1])
        return match[2] if value is None else show(match[1], value)

    if "[[" in template:
        template = _SPACES.sub(" ", _CLAUSE.sub(clause, template)).strip(" ")
    return _PLACEHOLDER.sub(one, template)


def placeholders(template: str) -> set[str]:
    """Return the names of the facts that `template` asks for."""
    optional = {name[1] for match in _CLAUSE.finditer(template) for name in _FACT.finditer(match[1])}
    return optional | {match[1] for match in _PLACEHOLDER.finditer(template)}
