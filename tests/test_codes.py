"""The tables of codes, each row against the fingerprints: what a table says must be what a log with that code gets."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

import trainwreck

FOLDER = Path(__file__).parent.parent / "taxonomy"
TABLES = [yaml.safe_load(path.read_text()) for path in sorted((FOLDER / "codes").glob("*.yaml"))]
DIAGNOSER = trainwreck.Diagnoser()
PRINTED = [
    pytest.param(
        row,
        form.replace("{code}", str(row["code"])).replace("{name}", row["name"]),
        id=f"{table['id']}-{row['code']}-{n}",
    )
    for table in TABLES
    for row in table["codes"]
    for n, form in enumerate(table["forms"])
]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t["id"])
def test_tables_are_valid_and_name_classes_that_exist(table):
    jsonschema.validate(table, json.loads((FOLDER / "codes.schema.json").read_text()))
    assert len({row["code"] for row in table["codes"]}) == len(table["codes"])
    named = {row["class"] for row in table["codes"] if row["class"]} | {
        c for row in table["codes"] for c in row.get("also", ())
    }
    assert named <= set(DIAGNOSER.taxonomy.entries)


@pytest.mark.parametrize(("row", "line"), PRINTED)
def test_a_printed_code_is_diagnosed_as_its_table_says(row, line):
    found = DIAGNOSER.diagnose(line)
    assert found.label in ([row["class"], *row.get("also", ())] if row["class"] else ["unknown"])
    if "retry" in row and found.label == row["class"]:
        assert found.retry == row["retry"]
