"""The entries as they stand in the repository, and the build that compiles them."""

import json
from pathlib import Path

import pytest
import yaml

from trainwreck import bundle, taxonomy, taxonomy_build
from trainwreck.errors import BundleError, TaxonomyError, UsageError
from trainwreck.facts import fill, placeholders

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "taxonomy"
ENTRIES = taxonomy_build.read_entries(FOLDER)


def test_the_readme_counts_the_failure_classes_and_the_two_outcomes():
    assert f"{len(ENTRIES) - 2} failure classes in eleven families" in (ROOT / "README.md").read_text()
    assert sorted(e["id"] for e in ENTRIES if e["family"] == "outcome") == ["healthy", "unknown"]
    assert len({e["family"] for e in ENTRIES}) == 12


def test_the_bundle_that_ships_was_built_from_these_files():
    built = taxonomy_build.serialise(taxonomy_build.compile_taxonomy(FOLDER))
    assert (bundle.DEFAULT / "taxonomy.json").read_text(encoding="utf-8") == built, "run `trainwreck taxonomy build`"


FULL = [entry for entry in ENTRIES if not entry.get("stub")]


@pytest.mark.parametrize("entry", FULL, ids=lambda e: e["id"])
def test_fix_sentences_read_without_any_fact(entry):
    for text in entry["fix"].values():
        bare = fill(text, {})
        assert not placeholders(bare)
        assert bare.strip()


@pytest.mark.parametrize("entry", FULL, ids=lambda e: e["id"])
def test_each_question_has_the_class_and_its_neighbour_as_answers(entry):
    for question in entry["tell_apart"]:
        assert question["id"] != entry["id"]
        assert {question["if_yes"], question["if_no"]} == {entry["id"], question["id"]}


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"(?i)CUDA out of memory", ("cuda out of memory",)),
        (r"\b[Kk]illed process (?P<pid_count>\d+)", ("killed process ",)),
        (r"(?:Connection reset|Broken pipe) by \w+", ("broken pipe", "connection reset")),
        (r"No module named ['\"](?P<module_name>[\w.]+)", ("no module named ",)),
        (r"(?:abc|abd)x{0,3} the long tail", (" the long tail",)),
    ],
)
def test_required_literals_are_what_every_match_holds(pattern, literals):
    assert taxonomy_build.required_literals(pattern) == literals


@pytest.mark.parametrize("pattern", [r"\d+", r"abc", r"(?:long enough|x)", r"(?:long enough)?", r"(?:long enough)*a"])
def test_a_pattern_without_a_literal_on_every_way_is_refused(pattern):
    with pytest.raises(TaxonomyError, match="literal"):
        taxonomy_build.required_literals(pattern)


def _write(folder: Path, **changes: object) -> None:
    entry = {
        "id": "a-class",
        "stub": True,
        "title": "A",
        "family": "gpu",
        "owner": "code",
        "retry": "stop",
        "summary": "s",
    }
    entry |= _fingerprint(examples=["some words"]) | changes
    for outcome in ("healthy", "unknown"):
        (folder / "outcome").mkdir(exist_ok=True)
        stub = {
            "stub": True,
            "id": outcome,
            "family": "outcome",
            "title": "T",
            "owner": "none",
            "retry": "none",
            "summary": "s",
        }
        (folder / "outcome" / f"{outcome}.yaml").write_text(yaml.safe_dump(stub))
    (folder / "gpu").mkdir(exist_ok=True)
    (folder / "gpu" / "a-class.yaml").write_text(yaml.safe_dump(entry))
    (folder / "entry.schema.json").write_text((FOLDER / "entry.schema.json").read_text())


def _fingerprint(**changes: object) -> dict[str, list[dict[str, object]]]:
    base = {
        "id": "a-class/x",
        "pattern": "some words",
        "role": "root",
        "specific": True,
        "source": "s",
        "examples": ["x"],
    }
    return {"fingerprints": [base | changes]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"retry": "maybe"}, "retry"),
        ({"id": "another"}, "another"),
        ({"related": ["no-such-class"]}, "no-such-class"),
        ({"stub": None}, "a-class.yaml"),
        ({"fix": {"primary": "use {missing_name|it}"}}, "missing_name"),
        (_fingerprint(pattern="("), "RE2"),
        (_fingerprint(id="b/x"), "b/x"),
        (_fingerprint(pattern="abcd(?P<n>x)"), "must end in"),
        (_fingerprint(when="f(x)"), "condition"),
        (_fingerprint(pattern="a.b"), "literal"),
        (_fingerprint(metrics="loss > 1"), "fingerprints"),
    ],
)
def test_a_bad_entry_is_refused_with_the_reason(tmp_path, changes, words):
    _write(tmp_path, **changes)
    with pytest.raises(TaxonomyError, match=words):
        taxonomy_build.read_entries(tmp_path)


def test_a_good_entry_survives_the_way_through_a_bundle(tmp_path):
    _write(tmp_path)
    path = tmp_path / "taxonomy.json"
    path.write_text(taxonomy_build.serialise(taxonomy_build.compile_taxonomy(tmp_path)))
    loaded = taxonomy.load(path)
    fingerprint = loaded["a-class"].fingerprints[0]
    assert (fingerprint.literals, fingerprint.label) == (("some words",), "a-class")
    assert set(loaded.entries) == {"a-class", "healthy", "unknown"}
    assert "examples" not in json.loads(path.read_text())["entries"][0]["fingerprints"][0]


def test_a_taxonomy_without_the_two_outcomes_is_refused(tmp_path):
    _write(tmp_path)
    path = tmp_path / "taxonomy.json"
    compiled = taxonomy_build.compile_taxonomy(tmp_path)
    path.write_text(taxonomy_build.serialise(compiled | {"entries": compiled["entries"][:1]}))
    with pytest.raises(BundleError, match="healthy"):
        taxonomy.load(path)
    (tmp_path / "outcome" / "unknown.yaml").unlink()
    with pytest.raises(TaxonomyError, match="unknown"):
        taxonomy_build.read_entries(tmp_path)


def test_an_unknown_id_is_answered_with_the_closest():
    loaded = taxonomy.load(bundle.DEFAULT / "taxonomy.json")
    with pytest.raises(UsageError, match="gpu-out-of-memory"):
        loaded["gpu-out-of-memry"]


def test_search_puts_the_class_that_is_meant_first():
    loaded = taxonomy.load(bundle.DEFAULT / "taxonomy.json")
    assert loaded.search("out of memory gpu")[0].id == "gpu-out-of-memory"
    assert loaded.search("zebra crossing warden") == []
