"""What is said of a Diagnosis or of an entry, and in what order: once, for every format.

A `Page` holds plain text without control characters; text in backticks is code. Each format decides how it looks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal

from trainwreck.diagnosis import Diagnosis, Evidence, FirstFailure
from trainwreck.facts import fill, show

__all__ = ["Page", "Quote", "Section", "clean", "page_of", "page_of_entry", "spans"]

Tone = Literal["failure", "healthy", "unknown", "entry"]

LONGEST_QUOTE = 600
"""Characters of a quoted line that are shown."""
MOST_ROWS = 14

# Controls (C0, C1, DEL), line separators, bidirectional overrides, invisible marks, lone surrogates: what could drive
# a terminal or make text read other than it is. Tab and newline are dealt with apart.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_CODE = re.compile(r"`([^`\n]+)`")

_SIZES = {"one": "1 accelerator", "sixty_four": "64", "thousand": "1,000"}
_SURE = (
    (0.95, "almost certain"),
    (0.85, "very likely"),
    (0.7, "likely"),
    (0.5, "more likely than not"),
    (0.0, "a guess"),
)
_SOURCE = {
    "model": "by the classifier",
    "fingerprint": "by the wording of the log",
    "metrics": "by the curve of the metrics",
}
_RESTART = {
    "restart": "Yes, restart it as it is.",
    "elsewhere": "Yes, but on other nodes: keep the failing one out until it was checked.",
    "stop": "Not as it is: something has to be changed first.",
    "after": "Later: once what it waits for is there again.",
    "none": "There is nothing to restart.",
    "unknown": "This log does not tell.",
}
_UNKNOWN = {
    "no_evidence": "The log shows no cause: it ends, or was cut, before anything that names one.",
    "not_covered": "The log shows a failure, but none of the known failure classes explains it.",
    "ambiguous": "Several failure classes fit these lines about equally well; nothing in the log decides.",
    "not_a_job_log": "This does not read like the log of a training or inference job.",
}
_UNKNOWN_NEXT = {
    "no_evidence": "Give the whole log, and those of all ranks together: the first failure is often in another file.",
    "not_covered": "Start at the quoted line: it is the first thing that went wrong.",
    "ambiguous": "Answer the questions above: they tell the candidates apart.",
    "not_a_job_log": "Check that this is the file you meant: the output of the job, not of the tool that started it.",
}


@dataclass(frozen=True, slots=True)
class Quote:
    """A quoted line of a log."""

    path: str | None
    """Not called `file`: unlike that of a Diagnosis, it is for display and gets cleaned."""
    line: int
    text: str
    marked: bool = False
    """Whether it is one of the lines that decided."""


@dataclass(frozen=True, slots=True)
class Section:
    """One titled part of a page; whatever is empty is not shown."""

    title: str
    text: str = ""
    quotes: tuple[Quote, ...] = ()
    items: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    code: tuple[tuple[str, str, str], ...] = ()
    """(what it is for, the code, why)."""
    links: tuple[tuple[str, str], ...] = ()
    """(title, http or https address)."""
    numbered: bool = False
    detail: bool = False
    """Whether it can wait until the reader has acted."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.text or self.quotes or self.items or self.rows or self.code or self.links)


@dataclass(frozen=True, slots=True)
class Page:
    """All that is said, in order."""

    title: str
    label: str
    sure: str
    tone: Tone
    summary: str
    sections: tuple[Section, ...]


def clean(text: str) -> str:
    """Return `text` without control characters, bidirectional overrides and other invisible marks; newlines stay."""
    return _UNSAFE.sub("", text.replace("\r\n", "\n").expandtabs(4))


def spans(text: str) -> list[tuple[bool, str]]:
    """Return `text` as (is code, words) pieces: what stands between two backticks of one line is code."""
    pieces: list[tuple[bool, str]] = []
    at = 0
    for match in _CODE.finditer(text):
        pieces += [(False, text[at : match.start()]), (True, match[1])]
        at = match.end()
    return [piece for piece in [*pieces, (False, text[at:])] if piece[1]]


def page_of(diagnosis: Diagnosis, *, why: bool = False) -> Page:
    """Return the page of `diagnosis`; with `why`, also what decided and why the runner-up lost."""
    unknown = diagnosis.label == "unknown"
    tone: Tone = "unknown" if unknown else "healthy" if diagnosis.label == "healthy" else "failure"
    reason = diagnosis.unknown_because or "no_evidence"
    summary = _UNKNOWN[reason] if unknown else _text(diagnosis.entry.get("summary"))
    sections = [
        _where(diagnosis),
        Section("Proof", quotes=_proof(diagnosis)),
        *((_candidates(diagnosis),) if unknown else ()),
        *((_questions(diagnosis),) if unknown and reason == "ambiguous" else ()),
        Section(
            "Do this now", " ".join(filter(None, (_UNKNOWN_NEXT[reason] if unknown else "", diagnosis.fix.primary)))
        ),
        Section("Will a restart help?", " ".join(filter(None, (_RESTART[diagnosis.retry], diagnosis.retry_reason)))),
        Section("Make sure that this is it", items=diagnosis.confirm, numbered=True, detail=True),
        Section("If that does not help", diagnosis.fix.fallback, detail=True),
        Section("To keep going meanwhile", diagnosis.fix.stopgap, detail=True),
        Section("After the fix", diagnosis.verify, detail=True),
        *(() if unknown else (_candidates(diagnosis), _questions(diagnosis))),
        Section("What followed from it (not the cause)", quotes=_quotes(diagnosis.collateral), detail=True),
        Section("Numbers of this run", rows=_numbers(diagnosis), detail=True),
        Section("Read more", links=_links(diagnosis.entry), detail=True),
        *([_why(diagnosis)] if why else ()),
    ]
    return _page(diagnosis.title or diagnosis.label, diagnosis.label, _sure(diagnosis, tone), tone, summary, sections)


def page_of_entry(entry: Mapping[str, Any]) -> Page:
    """Return the page of a taxonomy entry (its `content`)."""
    fix = {name: fill(text, {}) for name, text in entry.get("fix", {}).items()}
    told = [f"`{q.get('id', '')}`: {_asked(q)}" for q in entry.get("tell_apart", ())]
    retry = str(entry.get("retry", "unknown"))
    minutes = entry.get("minutes_to_fix")
    rows = [
        ("Family", entry.get("family")),
        ("Who can fix it", entry.get("owner")),
        ("Layer", entry.get("layer")),
        ("Severity", entry.get("severity")),
        ("Also called", ", ".join(entry.get("aliases", ()))),
        ("Takes", f"{minutes[0]:g} to {minutes[1]:g} minutes (an estimate)" if minutes else ""),
    ]
    sections = [
        Section("In short", rows=tuple((name, str(value)) for name, value in rows if value)),
        Section("Why it happens", _text(entry.get("root_cause"))),
        Section("What it is mistaken for", _text(entry.get("mistaken_for"))),
        Section("Signs", rows=tuple((_text(s.get("sign")), _text(s.get("why"))) for s in entry.get("symptoms", ()))),
        Section("Make sure that this is it", items=tuple(fill(s, {}) for s in entry.get("confirm", ())), numbered=True),
        Section("The fix", fix.get("primary", "")),
        Section("If that does not help", fix.get("fallback", "")),
        Section("To keep going meanwhile", fix.get("stopgap", "")),
        Section(
            "In code",
            code=tuple(
                (_text(c.get("stack")), str(c.get("snippet", "")), _text(c.get("why"))) for c in entry.get("code", ())
            ),
        ),
        Section("After the fix", fill(_text(entry.get("verify")), {})),
        Section(
            "Will a restart help?", " ".join(filter(None, (_RESTART.get(retry, ""), _text(entry.get("retry_reason")))))
        ),
        Section("To keep it from coming back", _text(entry.get("prevent"))),
        Section("Who it hits", items=tuple(entry.get("affected", ()))),
        Section("At scale", rows=tuple((_SIZES.get(k, str(k)), str(v)) for k, v in entry.get("scale", {}).items())),
        Section("Told apart from", items=tuple(told)),
        Section("Related", ", ".join(f"`{name}`" for name in entry.get("related", ()))),
        Section("Read more", links=_links(entry)),
    ]
    identity = str(entry.get("id", ""))
    return _page(str(entry.get("title", identity)), identity, "", "entry", _text(entry.get("summary")), sections)


def _page(title: str, label: str, sure: str, tone: Tone, summary: str, sections: Iterable[Section]) -> Page:
    page = Page(title, label, sure, tone, summary, tuple(section for section in sections if not section.empty))
    cleaned: Page = _each_string(page, lambda text: clean(text).strip("\n"))
    return cleaned


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _percent(probability: float) -> str:
    # Never "100 %": no log proves a cause.
    bounded = min(max(probability, 0.0), 0.99) if math.isfinite(probability) else 0.0
    return f"{bounded:.0%}".replace("%", " %")


def _sure(diagnosis: Diagnosis, tone: Tone) -> str:
    if tone == "unknown":
        return "No diagnosis: saying nothing beats a wrong answer here."
    words = next((words for least, words in _SURE if diagnosis.confidence >= least), "a guess")
    sentence = f"{words} ({_percent(diagnosis.confidence)}), {_SOURCE[diagnosis.source]}"
    return sentence[0].upper() + sentence[1:] + "."


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def _place(file: str | None, line: int) -> str:
    return f"{_one_line(file)}:{line}" if file else f"line {line}"


def _where(diagnosis: Diagnosis) -> Section:
    first = diagnosis.first_failure
    exception = diagnosis.exception or {}
    rows: list[tuple[str, str]] = []
    if first:
        rows = [
            ("Log", _place(first.file, first.line)),
            ("Rank", "" if first.rank is None else str(first.rank)),
            ("Host", first.host or ""),
            ("Time", (first.time or "").replace("T", " ")),
        ]
    rows += [("Raised as", str(exception.get("type") or "")), ("Code", _code_place(exception.get("frames") or ()))]
    return Section("Where it began", rows=tuple((name, _one_line(value)) for name, value in rows if value))


def _code_place(frames: Sequence[Mapping[str, Any]]) -> str:
    """The deepest frame of the reader's own program, else the deepest of all."""
    installed = ("site-packages", "dist-packages", "/lib/python", "\\lib\\", "<frozen", "<string>", "importlib")
    own = [f for f in frames if f.get("file") and not any(part in str(f["file"]) for part in installed)]
    if not (chosen := own[-1:] or frames[-1:]):
        return ""
    frame = chosen[0]
    line = f":{frame['line']}" if frame.get("line") else ""
    return f"{frame.get('file', '')}{line}" + (f" in {frame['function']}" if frame.get("function") else "")


def _shorten(text: str) -> str:
    text = _one_line(text)
    if len(text) <= LONGEST_QUOTE:
        return text
    tail = LONGEST_QUOTE // 4
    return f"{text[: LONGEST_QUOTE - tail]} [{len(text) - LONGEST_QUOTE:,} characters left out] {text[-tail:]}"


def _quotes(lines: Iterable[Evidence]) -> tuple[Quote, ...]:
    return tuple(Quote(e.file and _one_line(e.file), e.line, _shorten(e.text), e.role == "root") for e in lines)


def _proof(diagnosis: Diagnosis) -> tuple[Quote, ...]:
    quotes = _quotes(diagnosis.evidence)
    first: FirstFailure | None = diagnosis.first_failure
    if first and first.text and (first.file, first.line) not in {(e.file, e.line) for e in diagnosis.evidence}:
        quotes = (Quote(first.file and _one_line(first.file), first.line, _shorten(first.text), True), *quotes)
    return quotes


def _asked(question: Mapping[str, Any]) -> str:
    yes, no = _named(question.get("if_yes")), _named(question.get("if_no"))
    return f"{question.get('question', '')} If yes, {yes}; if no, {no}."


def _named(value: Any) -> str:
    """An id as code; a sentence as it is, without its full stop."""
    text = _text(value).rstrip(".")
    return f"`{text}`" if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text) else text or "it is not decided"


def _candidates(diagnosis: Diagnosis) -> Section:
    rows = tuple((label, _percent(p)) for label, p in diagnosis.alternatives[:5])
    unknown = diagnosis.label == "unknown"
    return Section("It could be" if unknown else "It could also be", rows=rows, detail=not unknown)


def _questions(diagnosis: Diagnosis) -> Section:
    items = tuple(_asked(question) for question in diagnosis.questions)
    return Section("Questions that decide", items=items, detail=diagnosis.label != "unknown")


def _numbers(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    rows = [
        (name, value)
        for name, value in (diagnosis.facts | diagnosis.metrics).items()
        if isinstance(value, (str, int, float))
    ]
    return tuple((_spoken(name), _shorten(show(name, value))) for name, value in rows[:MOST_ROWS])


def _spoken(name: str) -> str:
    """`tried_bytes` → `tried`: the value says its unit."""
    for suffix in ("_bytes", "_seconds", "_float", "_name"):
        name = name.removesuffix(suffix)
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _links(entry: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = []
    for reference in entry.get("references", ()):
        url = str(reference.get("url", ""))
        # Only the web: a bundle may come from a stranger, and `javascript:` is an address too.
        if re.fullmatch(r"https?://[^\s<>\"']{3,500}", url):
            found.append((str(reference.get("title") or url), url))
    return tuple(found)


def _why(diagnosis: Diagnosis) -> Section:
    why = diagnosis.why
    rows = [
        ("Decided by", why.get("rule")),
        ("Because", why.get("because")),
        ("Runner-up", why.get("runner_up")),
        ("It lost because", why.get("runner_up_lost_because")),
        ("Bundle", " ".join(filter(None, (diagnosis.bundle.get("name"), diagnosis.bundle.get("digest", "")[:12])))),
        ("Taxonomy", diagnosis.taxonomy_version),
    ]
    return Section("Why this answer", rows=tuple((name, str(value)) for name, value in rows if value), detail=True)


def _each_string(value: Any, function: Callable[[str], str]) -> Any:
    """Return `value` with `function` applied to every string in it: in dataclasses, dicts (keys too), tuples, lists."""
    if isinstance(value, str):
        return function(value)
    if isinstance(value, dict):
        return {_each_string(key, function): _each_string(item, function) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_each_string(item, function) for item in value)
    if isinstance(value, list):
        return [_each_string(item, function) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: _each_string(getattr(value, f.name), function) for f in fields(value)}
        return replace(value, **changed)
    return value
