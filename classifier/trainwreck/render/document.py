"""A Diagnosis → Markdown, HTML, JSON: the same page for a ticket, a browser or a program."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from trainwreck.diagnosis import Diagnosis
from trainwreck.render.page import Page, Quote, Section, page_of, page_of_entry, spans

__all__ = ["entry_to_html", "entry_to_markdown", "to_html", "to_json", "to_markdown"]

_CSS = """
:root{color-scheme:light dark;--ink:#1c2128;--soft:#57606a;--paper:#fff;--panel:#f6f8fa;--line:#d0d7de;
--mark:#fff3c4;--failure:#b42318;--healthy:#1a7f37;--unknown:#8a5a00;--entry:#0550ae}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b3;--paper:#0d1117;--panel:#161b22;--line:#30363d;
--mark:#4b3a00;--failure:#ff7b72;--healthy:#56d364;--unknown:#e3b341;--entry:#79c0ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:54rem;margin:0 auto;padding:2rem 1.25rem}
article+article{margin-top:3rem;padding-top:2rem;border-top:2px solid var(--line)}
h1{margin:0;font-size:1.6rem;line-height:1.25}
h2{margin:1.6rem 0 .3rem;font-size:1.05rem}
p,dd,li{white-space:pre-wrap;overflow-wrap:anywhere}
p{margin:.3rem 0}
.label{color:var(--soft);margin:.2rem 0 .8rem}
.failure h1{color:var(--failure)}.healthy h1{color:var(--healthy)}
.unknown h1{color:var(--unknown)}.entry h1{color:var(--entry)}
.detail{color:var(--soft)}.detail h2,.detail code,.detail dd{color:var(--ink)}
code,pre{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
code{background:var(--panel);padding:.1em .3em;border-radius:4px}
pre{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.7rem;margin:.3rem 0;
white-space:pre-wrap;overflow-wrap:anywhere}
pre code{background:none;padding:0}
pre b{background:var(--mark)}
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.15rem 1rem;margin:.3rem 0}
dt{color:var(--soft)}dd{margin:0}
a{color:var(--entry)}
@media print{body{background:#fff;color:#000}main{max-width:none;padding:0}section{break-inside:avoid}
pre b{background:none;text-decoration:underline}a[href]::after{content:" (" attr(href) ")"}}
"""


def to_markdown(*diagnoses: Diagnosis, why: bool = False) -> str:
    """Return the diagnoses as one Markdown document. Quoted lines stand in fences that no log can close."""
    return "\n---\n\n".join(_markdown(page_of(diagnosis, why=why)) for diagnosis in diagnoses)


def to_html(*diagnoses: Diagnosis, why: bool = False) -> str:
    """Return the diagnoses as one HTML page that needs nothing else: no script, no request, everything escaped."""
    return _document([page_of(diagnosis, why=why) for diagnosis in diagnoses])


def to_json(value: Any) -> str:
    """Return `value` as valid JSON in ASCII, indented. What JSON lacks becomes the strings "nan", "inf" and "-inf"."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=True, allow_nan=False, default=str)
    return text.replace("\x7f", "\\u007f") + "\n"  # the one control character that `json` lets through


def entry_to_markdown(entry: Mapping[str, Any]) -> str:
    """Return a taxonomy entry (its `content`) as Markdown."""
    return _markdown(page_of_entry(entry))


def entry_to_html(entry: Mapping[str, Any]) -> str:
    """Return a taxonomy entry (its `content`) as an HTML page."""
    return _document([page_of_entry(entry)])


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


_MARKED = re.compile(r"([\\`*_\[\]#|~!])")
_STARTS_A_BLOCK = re.compile(r"^(\s*)([-+=]|\d{1,9}[.)](?=\s))", re.MULTILINE)


def _escaped(text: str) -> str:
    """Words as Markdown that reads as these words: no markup, no HTML, no mention."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKED.sub(r"\\\1", text).replace("@", "&#64;")
    return _STARTS_A_BLOCK.sub(lambda m: f"{m[1]}{m[2][:-1]}\\{m[2][-1]}", text)


def _inline(text: str) -> str:
    return "".join(f"`{words}`" if is_code else _escaped(words) for is_code, words in spans(text))


def _fence(lines: Sequence[str], language: str = "text") -> list[str]:
    ticks = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, ticks + 1)
    return [fence + language, *lines, fence]


def _markdown(page: Page) -> str:
    out = [f"## {_escaped(' '.join(page.title.split()))}", "", f"`{page.label.replace('`', '')}`"]
    if page.sure:
        out[-1] += f" · {_escaped(page.sure)}"
    if page.summary:
        out += ["", _inline(page.summary)]
    for section in page.sections:
        out += ["", f"{'####' if section.detail else '###'} {_escaped(section.title)}", ""]
        out += _markdown_body(section)
    return "\n".join(out) + "\n"


def _markdown_body(section: Section) -> list[str]:
    out: list[str] = []
    if section.text:
        out.append(_inline(section.text))
    for file, quotes in groupby(section.quotes, key=lambda quote: quote.path):
        if file:
            out += [_escaped(file), ""]
        out += _fence(_numbered(list(quotes)))
    for number, item in enumerate(section.items, 1):
        marker = f"{number}. " if section.numbered else "- "
        out.append(marker + _inline(item).replace("\n", "\n" + " " * len(marker)))
    out += [f"- {_escaped(name)}: {_inline(_flat(value))}" for name, value in section.rows]
    for stack, snippet, why in section.code:
        out += [f"{_inline(_flat(stack))}:", "", *_fence(snippet.split("\n"), "python"), ""]
        out += [_inline(why), ""] if why else []
    out += [f"- [{_escaped(_flat(title))}](<{url}>)" for title, url in section.links]
    return out


def _flat(text: str) -> str:
    return " ".join(text.split("\n"))


def _numbered(quotes: Sequence[Quote]) -> list[str]:
    width = max(len(str(quote.line)) for quote in quotes)
    return [f"{'>' if quote.marked else ' '} {quote.line:>{width}} | {quote.text}" for quote in quotes]


def _document(pages: Sequence[Page]) -> str:
    title = html.escape(pages[0].title if len(pages) == 1 else f"{len(pages)} failures")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(_article(page) for page in pages)
        + "\n</main>\n</body>\n</html>\n"
    )


def _html_inline(text: str) -> str:
    pieces = (f"<code>{html.escape(words)}</code>" if is_code else html.escape(words) for is_code, words in spans(text))
    return "".join(pieces)


def _article(page: Page) -> str:
    sure = f" · {html.escape(page.sure)}" if page.sure else ""
    out = [
        f'<article class="{page.tone}">',
        f"<h1>{html.escape(page.title)}</h1>",
        f'<p class="label"><code>{html.escape(page.label)}</code>{sure}</p>',
    ]
    if page.summary:
        out.append(f"<p>{_html_inline(page.summary)}</p>")
    for section in page.sections:
        out.append('<section class="detail">' if section.detail else "<section>")
        out.append(f"<h2>{html.escape(section.title)}</h2>")
        out += [*_html_body(section), "</section>"]
    return "\n".join([*out, "</article>"])


def _html_body(section: Section) -> list[str]:
    out: list[str] = []
    if section.text:
        out.append(f"<p>{_html_inline(section.text)}</p>")
    for file, group in groupby(section.quotes, key=lambda quote: quote.path):
        quotes = list(group)
        if file:
            out.append(f"<p><code>{html.escape(file)}</code></p>")
        lines = [html.escape(line) for line in _numbered(quotes)]
        lines = [f"<b>{line}</b>" if quote.marked else line for line, quote in zip(lines, quotes, strict=True)]
        out.append("<pre>" + "\n".join(lines) + "</pre>")
    if section.items:
        kind = "ol" if section.numbered else "ul"
        out += [f"<{kind}>", *(f"<li>{_html_inline(item)}</li>" for item in section.items), f"</{kind}>"]
    if section.rows:
        rows = (f"<dt>{_html_inline(name)}</dt><dd>{_html_inline(value)}</dd>" for name, value in section.rows)
        out += ["<dl>", *rows, "</dl>"]
    for stack, snippet, why in section.code:
        out += [f"<p>{_html_inline(stack)}:</p>", f"<pre><code>{html.escape(snippet)}</code></pre>"]
        out += [f"<p>{_html_inline(why)}</p>"] if why else []
    if section.links:
        links = (
            f'<li><a rel="noopener noreferrer" href="{html.escape(url)}">{html.escape(title)}</a></li>'
            for title, url in section.links
        )
        out += ["<ul>", *links, "</ul>"]
    return out
