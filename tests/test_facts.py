import math

import pytest

from trainwreck import facts
from trainwreck.conditions import calculate, holds, names_in
from trainwreck.errors import TaxonomyError


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("tried_bytes", "2.50 GiB", 2_684_354_560),
        ("tried_bytes", "1024.00 MiB", 2**30),
        ("tried_bytes", "16GB", 16 * 2**30),
        ("rss_bytes", "65536kB", 2**26),
        ("rss_bytes", "9637888", 9_637_888),
        ("rss_bytes", "12 parsecs", None),
        ("limit_seconds", "600000 ms", 600.0),
        ("limit_seconds", "1-02:00:00", 93_600.0),
        ("limit_seconds", "00:30:00", 1_800.0),
        ("limit_seconds", "300", 300.0),
        ("limit_seconds", "30 minutes", 1_800.0),
        ("failing_rank", "3", 3),
        ("steps_count", "1,024", 1024),
        ("steps_count", "1e999", None),
        ("loss_float", "-1.5e3", -1500.0),
        ("module_name", " 'torchvision' ", "torchvision"),
        ("module_name", "''", None),
        ("free_count", "no number", None),
    ],
)
def test_typed_reads_the_value_that_the_suffix_promises(name, text, value):
    assert facts.typed(name, text) == value


def test_typed_reads_non_finite_floats():
    assert math.isnan(facts.typed("loss_float", "nan"))
    assert facts.typed("loss_float", "-inf") == -math.inf


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("a_bytes", 2_684_354_560, "2.5 GiB"),
        ("a_bytes", 12, "12 B"),
        ("a_seconds", 1800.0, "30 min"),
        ("a_seconds", 12.0, "12 s"),
        ("a_seconds", 86_400.0, "24 h"),
        ("a_float", 0.123456, "0.1235"),
        ("a_count", 7, "7"),
    ],
)
def test_show_writes_values_as_people_do(name, value, shown):
    assert facts.show(name, value) == shown


def test_fill_uses_the_fact_or_the_words_and_leaves_code_alone():
    template = 'Free {need_bytes|the request}; then `d = {"a": 1}` and {other_name|the module}.'
    assert facts.fill(template, {"need_bytes": 2**30}) == 'Free 1 GiB; then `d = {"a": 1}` and the module.'
    assert facts.placeholders(template) == {"need_bytes", "other_name"}


def test_a_clause_is_said_only_where_the_log_gave_all_its_facts():
    template = "Free space.[[ {path_path} is full, {need_bytes} are missing.]] Then `if [[ -f x ]]; then` go on."
    assert facts.fill(template, {}) == "Free space. Then `if [[ -f x ]]; then` go on."
    told = facts.fill(template, {"path_path": "/data", "need_bytes": 2**30})
    assert told == "Free space. /data is full, 1 GiB are missing. Then `if [[ -f x ]]; then` go on."
    assert facts.placeholders(template) == {"path_path", "need_bytes"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a_bytes >= b_bytes and b_bytes > 0", True),
        ("a_bytes < b_bytes or a_bytes == 4", True),
        ("not a_bytes > b_bytes", False),
        ("1 < b_bytes < a_bytes", True),
        ("missing > 1", False),
        ("missing > 1 or a_bytes > 1", True),
        ("a_bytes / zero > 1", False),
        ("a_bytes - b_bytes >= 0.5 * a_bytes", True),
    ],
)
def test_holds_compares_facts(expression, expected):
    assert holds(expression, {"a_bytes": 4, "b_bytes": 2, "zero": 0}) is expected


def test_calculate_gives_none_where_a_name_is_missing():
    assert calculate("a - b", {"a": 3, "b": 1}) == 2
    assert calculate("a - b", {"a": 3}) is None


@pytest.mark.parametrize(
    "hostile", ["__import__('os')", "a.b", "a[0]", "lambda: 1", "'x' * 9", "a ** 9", "f(1)", "a if b else c", "("]
)
def test_conditions_refuse_everything_but_arithmetic(hostile):
    with pytest.raises(TaxonomyError):
        names_in(hostile)
