"""The faces of a Diagnosis: what they say, in what order, and that no log can break out of them."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwreck.diagnosis import Diagnosis, Evidence, FirstFailure, Fix
from trainwreck.render.document import entry_to_html, entry_to_markdown, to_html, to_json, to_markdown
from trainwreck.render.page import clean, page_of, spans
from trainwreck.render.terminal import render, render_entry

ENTRY: dict[str, Any] = {
    "id": "gpu-memory-fragmentation",
    "title": "GPU memory is fragmented",
    "family": "memory",
    "owner": "code",
    "retry": "stop",
    "summary": "The pool has room, but in pieces too small for the request.",
    "root_cause": "Blocks of many sizes were split.",
    "symptoms": [{"sign": "Reserved is far above allocated", "why": "Free pieces cannot be joined"}],
    "confirm": ["Run `torch.cuda.memory_summary()`."],
    "fix": {"primary": "Make room for {tried_bytes|the request}."},
    "code": [
        {"stack": "PyTorch", "snippet": "import os\nos.environ['A'] = 'b'", "why": "Before the first allocation."}
    ],
    "tell_apart": [
        {"id": "gpu-out-of-memory", "question": "Is it full?", "if_yes": "gpu-out-of-memory", "if_no": "Look on."}
    ],
    "references": [
        {"title": "Memory management", "url": "https://pytorch.org/docs/stable/notes/cuda.html"},
        {"title": "trap", "url": "javascript:alert(1)"},
    ],
}

FULL = Diagnosis(
    label="gpu-memory-fragmentation",
    title="GPU memory is fragmented",
    family="memory",
    confidence=0.93,
    source="fingerprint",
    alternatives=(("gpu-out-of-memory", 0.04),),
    first_failure=FirstFailure("logs/rank3.log", 1204, 3, "gpu-07", "2025-11-30T10:11:12", "OutOfMemoryError: full"),
    evidence=(
        Evidence("logs/rank3.log", 1198, '  File "train.py", line 88, in step', "context"),
        Evidence("logs/rank3.log", 1204, "OutOfMemoryError: full", "root"),
    ),
    collateral=(Evidence("logs/rank0.log", 900, "Watchdog caught a timeout", "collateral"),),
    exception={
        "type": "torch.OutOfMemoryError",
        "message": "full",
        "frames": [
            {"file": "/home/u/train.py", "line": 88, "function": "step", "code": "y = f(x)"},
            {"file": "/usr/lib/site-packages/torch/nn.py", "line": 5, "function": "f", "code": None},
        ],
        "chain": [],
    },
    facts={"tried_bytes": 2684354560, "wait_seconds": 1800.0},
    metrics={"last_finite_loss": 2.31, "grad_norm_growth": float("inf")},
    retry="stop",
    retry_reason="The same batch meets the same pool.",
    entry=ENTRY,
    fix=Fix("Set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.", "Lower the batch size.", "Free the cache."),
    confirm=("Run `torch.cuda.memory_summary()`.", "Look at the second line."),
    verify="Reserved stays near allocated.",
    questions=({"id": "gpu-out-of-memory", "question": "Is it full?", "if_yes": "gpu-out-of-memory", "if_no": "no"},),
    why={"rule": "specific", "because": "it names it", "runner_up": "x-y", "runner_up_lost_because": "it is an echo"},
    bundle={"name": "default", "digest": "0123456789abcdef"},
    taxonomy_version="1.abc",
)

UNKNOWN = Diagnosis(
    label="unknown",
    title="Cause not found",
    family="outcome",
    confidence=0.4,
    source="fingerprint",
    alternatives=(("gpu-lost", 0.3), ("native-crash", 0.2)),
    unknown_because="ambiguous",
    questions=FULL.questions,
)

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m\x1b(0[bold red]x[/]\r\x08\x7f\u202eevil\u2066\u2028 <script>alert(1)</script> "
    "</pre></code>&amp; ``` ```` `````` ~~~ ``` [a](javascript:x) ![i](x) # | * _ \ud800 \x00 @team :smile:"
)


def hostile(text: str) -> Diagnosis:
    """A Diagnosis with `text` in every place that can come from a log, a file name or a stranger's bundle."""
    line = Evidence(text, 3, text, "root")
    return Diagnosis(
        label=text,
        title=text,
        family=text,
        confidence=0.9,
        source="model",
        alternatives=((text, 0.1),),
        first_failure=FirstFailure(text, 2, 0, text, text, text),
        evidence=(line,),
        collateral=(replace(line, role="collateral"),),
        exception={
            "type": text,
            "message": text,
            "frames": [{"file": text, "line": 1, "function": text, "code": text}],
            "chain": [],
        },
        facts={"a_name": text, text: text},
        metrics={text: text},
        retry_reason=text,
        entry={"summary": text, "references": [{"title": text, "url": "https://x.org/" + text}]},
        fix=Fix(text, text, text),
        confirm=(text, text),
        verify=text,
        questions=({"id": text, "question": text, "if_yes": text, "if_no": text},),
        why={"rule": text, "because": text, "runner_up": text, "runner_up_lost_because": text},
        bundle={"name": text, "digest": text},
        taxonomy_version=text,
    )


def unsafe(text: str) -> list[str]:
    """Characters that a terminal or a reader could be led by."""
    return [
        c
        for c in text
        if (ord(c) < 32 and c != "\n")
        or 0x7F <= ord(c) < 0xA0
        or c in "\u202e\u2066\u2028\u200b\ufeff"
        or 0xD800 <= ord(c) < 0xE000
    ]


# --- content ---


def test_terminal_says_first_what_then_where_proof_action_restart_then_details() -> None:
    text = render(FULL, console_width=90)
    order = [
        "GPU memory is fragmented",
        "Very likely (93 %)",
        "pieces too small",
        "logs/rank3.log:1204",
        "gpu-07",
        "2025-11-30 10:11:12",
        "/home/u/train.py:88 in step",
        "> 1204 | OutOfMemoryError: full",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "Not as it is",
        "The same batch meets the same pool.",
        "1. Run `torch.cuda.memory_summary()`.",
        "Lower the batch size.",
        "Free the cache.",
        "Reserved stays near allocated.",
        "gpu-out-of-memory  4 %",
        "Is it full?",
        "Watchdog caught a timeout",
        "2.5 GiB",
        "30 min",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


@pytest.mark.parametrize("face", [lambda d: render(d), to_markdown, to_html])
def test_every_face_says_the_same(face: Any) -> None:
    text = face(FULL)
    for part in (
        "fragmented",
        "Very likely (93 %)",
        "expandable_segments:True",
        "2.5 GiB",
        "Watchdog caught",
        "Is it full?",
        "1204",
    ):
        assert part in text
    assert "it names it" not in text
    assert "it is an echo" not in text


@pytest.mark.parametrize("face", [render, to_markdown, to_html])
def test_why_adds_what_decided_and_why_the_runner_up_lost(face: Any) -> None:
    text = face(FULL, why=True)
    for part in ("specific", "it names it", "x-y", "it is an echo", "0123456789ab", "1.abc"):
        assert part in text


@pytest.mark.parametrize(
    ("because", "said"),
    [
        ("no_evidence", "shows no cause"),
        ("not_covered", "none of the known failure classes"),
        ("ambiguous", "equally well"),
        ("not_a_job_log", "does not read like the log"),
    ],
)
def test_unknown_is_explained_in_words_with_its_candidates(because: Any, said: str) -> None:
    text = render(replace(UNKNOWN, unknown_because=because))
    assert said in text
    assert "gpu-lost" in text
    assert "30 %" in text
    assert ("Is it full?" in text) is (because == "ambiguous")
    assert "40 %" not in text


def test_healthy_needs_no_restart() -> None:
    text = render(Diagnosis("healthy", "No failure", "outcome", 0.7, "metrics", retry="none"))
    assert "There is nothing to restart." in text
    assert "Do this now" not in text


@pytest.mark.parametrize(
    ("confidence", "words"),
    [
        (0.97, "Almost certain (97 %)"),
        (1.0, "(99 %)"),
        (0.72, "Likely (72 %)"),
        (0.1, "A guess (10 %)"),
        (float("nan"), "A guess (0 %)"),
    ],
)
def test_sureness_is_said_in_words_and_never_as_certainty(confidence: float, words: str) -> None:
    assert words in render(replace(FULL, confidence=confidence))


def test_first_failure_is_quoted_when_the_evidence_leaves_it_out() -> None:
    text = render(replace(FULL, evidence=FULL.evidence[:1]))
    assert "> 1204 | OutOfMemoryError: full" in text


def test_long_line_keeps_its_beginning_and_its_end() -> None:
    long = Evidence(None, 7, "START " + "x" * 5000 + " END", "root")
    text = " ".join(render(replace(FULL, first_failure=None, evidence=(long,))).split())
    assert "START" in text
    assert "END" in text
    assert "characters left out" in text
    assert len(text) < 3000


def test_entry_is_explained_with_words_where_facts_would_stand() -> None:
    text = render_entry(ENTRY)
    for part in (
        "Make room for the request.",
        "Blocks of many sizes",
        "os.environ['A'] = 'b'",
        "if no, Look on.",
        "pytorch.org",
    ):
        assert part in text
    assert "javascript" not in text
    assert "Make room for the request." in entry_to_markdown(ENTRY)
    assert "Blocks of many sizes" in entry_to_html(ENTRY)


# --- layout ---


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = render(
        replace(FULL, evidence=(Evidence("d/" + "f" * 200, 123456, "w" * 300, "root"),)), console_width=width, why=True
    )
    assert max(len(line) for line in text.split("\n")) <= width
    assert not any(line.endswith(" ") for line in text.split("\n"))


def test_color_only_when_asked() -> None:
    assert "\x1b" not in render(FULL)
    assert "\x1b[" in render(FULL, color=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", render(FULL, color=True))
    assert [line.rstrip() for line in plain.split("\n")] == render(FULL).split("\n")


# --- hostile text ---


@pytest.mark.parametrize(
    "face", [lambda d: render(d, why=True), lambda d: to_markdown(d, why=True), lambda d: to_html(d, why=True)]
)
def test_no_control_character_gets_through(face: Any) -> None:
    text = face(hostile(HOSTILE))
    assert not unsafe(text)
    assert "owned" in text
    assert text.encode("utf-8")


def test_colored_output_holds_only_our_own_escapes() -> None:
    text = render(hostile(HOSTILE), color=True, why=True)
    assert not unsafe(re.sub(r"\x1b\[[0-9;]*m", "", text))


def test_rich_markup_and_emoji_codes_are_shown_as_they_are() -> None:
    text = render(replace(FULL, evidence=(Evidence(None, 1, "[bold red]x[/] :smile: [/nope]", "root"),)))
    assert "[bold red]x[/] :smile: [/nope]" in text


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_anywhere_renders_safely(text: str) -> None:
    diagnosis = hostile(text)
    for face in (render(diagnosis), to_markdown(diagnosis), to_html(diagnosis)):
        assert not unsafe(face)
    assert isinstance(json.loads(to_json(diagnosis.to_dict())), dict)


class Tags(HTMLParser):
    """Collects what a browser would take for elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record it."""
        self.seen.add(tag)
        self.attributes += attrs
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that it closes the last one."""
        assert self.open.pop() == tag


def test_html_holds_no_element_of_the_log_and_stands_alone() -> None:
    page = to_html(hostile(HOSTILE), FULL, why=True)
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    assert not tags.seen & {"script", "img", "link", "iframe", "svg", "object", "form", "base"}
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    links = [value for name, value in tags.attributes if name in ("href", "src")]
    assert links == ["https://pytorch.org/docs/stable/notes/cuda.html"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "url(" not in page
    assert "prefers-color-scheme:dark" in page
    assert "@media print" in page


@pytest.mark.parametrize("ticks", ["```", "````", "`" * 40, "``` ```` `", "~~~", "    ```"])
def test_markdown_fence_cannot_be_closed_by_the_log(ticks: str) -> None:
    lines = (Evidence("a.log", 1, ticks, "root"), Evidence("a.log", 2, "# not a heading", "root"))
    text = to_markdown(replace(FULL, evidence=lines, first_failure=None))
    inside = False
    fence = ""
    outside = []
    for line in text.split("\n"):
        opened = re.match(r"^ {0,3}(`{3,})", line)
        if inside and opened and len(opened[1]) >= len(fence) and not line.strip(" `"):
            inside = False
        elif not inside and opened:
            inside, fence = True, opened[1]
        elif not inside:
            outside.append(line)
    assert not inside
    assert not any("not a heading" in line for line in outside)


def test_markdown_prose_carries_no_markup_of_the_log() -> None:
    text = to_markdown(replace(FULL, fix=Fix("<b>x</b> [l](http://e) @team # h *s* `code` ~~ ![i](u)"), entry={}))
    assert "<b>" not in text
    assert "@team" not in text
    assert not re.search(r"(?<!\\)\]\(http", text)
    assert "&#64;team" in text
    assert "`code`" in text


# --- JSON and its schema ---


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        files("trainwreck").joinpath("diagnosis.schema.json").read_text(encoding="utf-8")
    )
    return loaded


def test_schema_names_exactly_the_fields_of_a_diagnosis() -> None:
    names = {field.name for field in dataclasses.fields(Diagnosis)}
    assert set(schema()["properties"]) == names
    assert set(schema()["required"]) == names


@pytest.mark.parametrize("diagnosis", [FULL, UNKNOWN], ids=["full", "unknown"])
def test_json_of_a_diagnosis_is_valid(diagnosis: Diagnosis) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(json.loads(to_json(diagnosis.to_dict())), schema(), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": 1.5},
        {"label": "Not An Id"},
        {"unknown_because": "ambiguous"},
        {"retry": "maybe"},
        {"facts": {"tried_bytes": "2.5 GiB"}},
        {"alternatives": [["gpu-lost"]]},
        {"surprise": 1},
    ],
)
def test_schema_refuses_what_is_no_diagnosis(change: dict[str, Any]) -> None:
    data = json.loads(to_json(FULL.to_dict())) | change
    assert not jsonschema.Draft202012Validator(schema()).is_valid(data)


def test_json_is_ascii_without_control_characters_and_without_nan() -> None:
    text = to_json({"a": float("nan"), "b": [float("-inf"), 1.5], "c": HOSTILE, "d": (1, 2)})
    assert text.isascii()
    assert not unsafe(text)
    assert json.loads(text) == {"a": "nan", "b": ["-inf", 1.5], "c": HOSTILE, "d": [1, 2]}


# --- parts ---


def test_clean_keeps_newlines_and_letters_of_all_scripts() -> None:
    assert clean("a\tb\r\nc\x1b[0m é 漢字 👩\u200d🔬") == "a   b\nc[0m é 漢字 👩\u200d🔬"


def test_spans_split_code_from_words() -> None:
    assert spans("Run `a b` and `c`.") == [(False, "Run "), (True, "a b"), (False, " and "), (True, "c"), (False, ".")]
    assert spans("one ` tick") == [(False, "one ` tick")]


def test_page_leaves_out_what_is_empty() -> None:
    bare = Diagnosis("key-error", "A key is missing", "python", 0.6, "fingerprint")
    assert [section.title for section in page_of(bare).sections] == ["Will a restart help?"]
