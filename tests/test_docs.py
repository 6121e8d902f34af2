"""The browsable form of the taxonomy: generated, fresh, linked, and escaped."""

import html
import re
from pathlib import Path

import pytest

from trainwreck.bundle import DEFAULT
from trainwreck.cli import main
from trainwreck.taxonomy import load
from trainwreck.taxonomy_docs import pages, write_pages

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "taxonomy"
PAGES = pages(ROOT / "taxonomy")
TAXONOMY = load(DEFAULT / "taxonomy.json")


def test_the_committed_pages_are_those_that_the_entries_make():
    committed = {str(path.relative_to(DOCS)): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    assert committed == PAGES, "run `trainwreck taxonomy docs`"


def test_every_link_between_pages_leads_somewhere():
    for name, text in PAGES.items():
        for target in re.findall(r"\]\(([^)<>#]+\.md)\)", text):
            assert str(Path(name).parent / target) in PAGES, f"{name} -> {target}"


def test_every_entry_is_in_every_index_that_all_belong_to():
    for entry in TAXONOMY.entries.values():
        for index in ("index.md", "by-owner.md", "by-retry.md", "aliases.md"):
            assert f"({entry.family}/{entry.id}.md)" in PAGES[index], (entry.id, index)


def test_every_fingerprint_has_a_row_that_no_pattern_breaks():
    rows = [line for line in PAGES["fingerprints.md"].split("\n") if line.startswith("| [")]
    assert len(rows) == len(TAXONOMY.fingerprints)
    assert {row.count(" | ") for row in rows} == {3}


def test_patterns_read_in_the_page_as_they_stand_in_the_entry():
    shown = {html.unescape(code) for code in re.findall(r"<code>(.*?)</code>", PAGES["fingerprints.md"])}
    patterns = {" ".join(f.pattern.split()) for f in TAXONOMY.fingerprints if f.pattern}
    assert patterns <= shown


def test_pages_of_entries_that_are_gone_are_removed(tmp_path):
    stale = tmp_path / "gpu" / "no-longer-there.md"
    stale.parent.mkdir()
    stale.write_text("x")
    assert write_pages(ROOT / "taxonomy", tmp_path) == len(PAGES)
    assert not stale.exists()
    assert len(list(tmp_path.rglob("*.md"))) == len(PAGES)


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        ("gpu-lost", "gpu-lost"),
        ("Xid 79", "gpu-lost"),
        ("XID: 94", "gpu-ecc-error"),
        ("errno 28", "disk-full"),
        ("SIGSEGV", "native-crash"),
        ("CUDNN_STATUS_EXECUTION_FAILED", "cuda-library-failure"),
        ("exploding gradients", "transformer-divergence"),
        (
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices",
            "device-mismatch",
        ),
        ("slurm time limit", "time-limit"),
    ],
)
def test_explain_finds_an_entry_by_id_other_name_code_or_line(capsys, words, entry):
    assert main(["explain", *words.split(" "), "--format", "markdown"]) == 0
    assert f"`{entry}`" in capsys.readouterr().out.split("\n")[2]
