"""A Diagnosis → text for a terminal, for someone who is tired and wants to know what to do.

Text of the log reaches rich as `Text`, never as markup, and without control characters: no log can drive the terminal.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trainwreck.diagnosis import Diagnosis
from trainwreck.render.page import Page, Quote, Section, page_of, page_of_entry, spans

__all__ = ["render", "render_entry"]

NARROWEST, WIDEST = 40, 110
"""Columns: narrower cannot be read as lines, wider cannot be read as text."""

_TONES = {"failure": "bold red", "healthy": "bold green", "unknown": "bold yellow", "entry": "bold cyan"}
_HEADING = "bold"
_URGENT = "bold cyan"


def render(diagnosis: Diagnosis, *, console_width: int = 100, color: bool = False, why: bool = False) -> str:
    """Return `diagnosis` as lines of at most `console_width` columns (40 to 110), with ANSI colours if `color`.

    With `why`, it ends with what decided and why the runner-up lost.
    """
    return _draw(page_of(diagnosis, why=why), console_width, color)


def render_entry(entry: Mapping[str, Any], *, console_width: int = 100, color: bool = False) -> str:
    """Return a taxonomy entry (its `content`) as lines of at most `console_width` columns."""
    return _draw(page_of_entry(entry), console_width, color)


def _draw(page: Page, width: int, color: bool) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(NARROWEST, min(width, WIDEST)),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )
    console.print(Text(page.title, style=_TONES[page.tone]))
    console.print(Text(page.label, style="dim") + (Text(f"  {page.sure}") if page.sure else Text()))
    if page.summary:
        console.print(Text(), _prose(page.summary), sep="\n")
    ruled = False
    for section in page.sections:
        if section.detail and not ruled:
            ruled = True
            console.print(Text("\n" + "-" * min(console.width, 60), style="dim"))
        console.print(Text())
        console.print(Text(section.title, style=_HEADING if section.detail else _URGENT))
        console.print(Padding(_body(section), (0, 0, 0, 2)))
    # Padding and tables fill their lines with spaces; a paste should not.
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).strip("\n") + "\n"


def _prose(text: str) -> Text:
    prose = Text(overflow="fold")
    for is_code, words in spans(text):
        prose.append(f"`{words}`" if is_code else words, style="bold" if is_code else "")
    return prose


def _body(section: Section) -> Group:
    parts: list[RenderableType] = []
    if section.text:
        parts.append(_prose(section.text))
    if section.quotes:
        parts += _quoted(section.quotes)
    if section.items:
        grid = _grid(1)
        for number, item in enumerate(section.items, 1):
            grid.add_row(Text(f"{number}." if section.numbered else "-"), _prose(item))
        parts.append(grid)
    if section.rows:
        grid = _grid(2)
        for name, value in section.rows:
            grid.add_row(Text(name, style="dim"), _prose(value))
        parts.append(grid)
    for stack, snippet, why in section.code:
        parts += [Text(f"{stack}:"), Padding(Text(snippet, style="bold", overflow="fold"), (0, 0, 0, 2))]
        parts += [_prose(why)] if why else []
    for title, url in section.links:
        parts += [Text(title), Padding(Text(url, style="dim", overflow="fold"), (0, 0, 0, 2))]
    return Group(*parts)


def _grid(gap: int) -> Table:
    grid = Table.grid(padding=(0, gap, 0, 0))
    grid.add_column(overflow="fold", max_width=30)
    grid.add_column(overflow="fold")
    return grid


def _quoted(quotes: Sequence[Quote]) -> list[RenderableType]:
    """The lines under the name of their file: `>` marks those that decided."""
    parts: list[RenderableType] = []
    grid = Table()
    file: str | None = None
    width = max(len(str(quote.line)) for quote in quotes)
    for number, quote in enumerate(quotes):
        if number == 0 or quote.path != file:
            file = quote.path
            if file:
                parts.append(Text(file, style="dim", overflow="fold"))
            grid = Table.grid(padding=(0, 1, 0, 0))
            grid.add_column(no_wrap=True)
            grid.add_column(no_wrap=True, justify="right", min_width=width)
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            parts.append(grid)
        style = "bold" if quote.marked else ""
        grid.add_row(
            Text(">" if quote.marked else " ", style="bold red"),
            Text(str(quote.line), style="dim"),
            Text("|", style="dim"),
            Text(quote.text, style=style, overflow="fold"),
        )
    return parts
