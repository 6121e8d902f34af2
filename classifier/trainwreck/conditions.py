"""Comparison expressions over named numbers, as fingerprints write them: `reserved_bytes >= tried_bytes and tried_bytes > 0`.

A bundle may come from a stranger, so nothing here can do more than compare and calculate.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from trainwreck.errors import TaxonomyError

__all__ = ["calculate", "holds", "names_in"]

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CALCULATE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class _MissingError(Exception):
    """A name has no value: the comparison that needs it is false."""


LONGEST = 4_000
"""Characters of an expression: those that people write are a tenth of it."""


@lru_cache(maxsize=1024)
def _parse(expression: str) -> ast.expr:
    if len(expression) > LONGEST:
        raise TaxonomyError(f"condition {expression[:60]!r}... is longer than {LONGEST:,} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise TaxonomyError(f"condition {expression[:200]!r} is not an expression: {error}") from error
    allowed = (ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, ast.BinOp, ast.Name, ast.Load)
    for node in ast.walk(tree):
        if isinstance(node, (*allowed, *_COMPARE, *_CALCULATE)):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            continue
        raise TaxonomyError(
            f"condition {expression[:200]!r} may hold numbers, names, + - * /, comparisons, and/or/not only"
        )
    return tree


def names_in(expression: str) -> set[str]:
    """Return the names that `expression` reads. Raises TaxonomyError when it is not a valid condition."""
    return {node.id for node in ast.walk(_parse(expression)) if isinstance(node, ast.Name)}


def holds(expression: str, values: Mapping[str, Any]) -> bool:
    """Tell whether `expression` is true of `values`. A comparison with a name that has no value is false.

    Raises TaxonomyError when `expression` is not a valid condition.
    """
    try:
        return bool(_evaluate(_parse(expression), values))
    except (_MissingError, ZeroDivisionError, TypeError, OverflowError, RecursionError):
        return False


def calculate(expression: str, values: Mapping[str, Any]) -> Any:
    """Return what `expression` comes to, or None when a name in it has no value."""
    try:
        return _evaluate(_parse(expression), values)
    except (_MissingError, ZeroDivisionError, TypeError, OverflowError, RecursionError):
        return None


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return float(node.value)  # type: ignore[arg-type]  # _parse lets no other constant through; int could grow for ever
        case ast.Name():
            value = values.get(node.id)
            if value is None:
                raise _MissingError(node.id)
            return value
        case ast.UnaryOp(op=ast.Not()):
            return not _truth(node.operand, values)
        case ast.UnaryOp():
            return -_evaluate(node.operand, values)
        case ast.BoolOp(op=ast.And()):
            return all(_truth(part, values) for part in node.values)
        case ast.BoolOp():
            return any(_truth(part, values) for part in node.values)
        case ast.BinOp():
            return _CALCULATE[type(node.op)](_evaluate(node.left, values), _evaluate(node.right, values))
        case ast.Compare():
            left = _evaluate(node.left, values)
            for op, comparator in zip(node.ops, node.comparators, strict=True):
                right = _evaluate(comparator, values)
                if not _COMPARE[type(op)](left, right):
                    return False
                left = right
            return True
        case _:  # pragma: no cover - _parse lets nothing else through
            raise TaxonomyError(f"cannot evaluate {ast.dump(node)}")


def _truth(node: ast.expr, values: Mapping[str, Any]) -> bool:
    try:
        return bool(_evaluate(node, values))
    except (_MissingError, ZeroDivisionError, TypeError, OverflowError, RecursionError):
        return False
