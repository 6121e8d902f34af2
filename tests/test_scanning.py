from conftest import make_entry, make_fingerprint, make_taxonomy
from trainwreck import tracebacks
from trainwreck.scanning import CONTEXT_LINES, HITS_A_FINGERPRINT, Scanner, numeric_hits
from trainwreck.taxonomy import Fingerprint

TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/lib/auto/factory.py", line 12, in resolve
    config = TABLE[name]
KeyError: 'newmodel'"""


def scan(lines, *fingerprints):
    return Scanner(make_taxonomy(make_entry("a", *fingerprints))).hits(lines, tracebacks.parse(lines))


def test_a_hit_has_its_line_span_and_typed_facts(as_lines):
    lines = as_lines("nothing here\nI tried to get 2.5 GiB of it\n")
    (hit,) = scan(lines, make_fingerprint("a", r"tried to get (?P<tried_bytes>[\d.]+ GiB)"))
    assert (hit.index, hit.facts) == (1, (("tried_bytes", 2_684_354_560),))
    assert lines[1].text[hit.start : hit.end] == "tried to get 2.5 GiB"


def test_lines_are_found_behind_text_whose_lower_case_is_longer(as_lines):
    lines = as_lines("İİİİİİİİİİ\nİİİ the needle İ\nanother line")
    (hit,) = scan(lines, make_fingerprint("a", "the needle"))
    assert hit.index == 1


def test_case_is_ignored_only_where_the_pattern_says_so(as_lines):
    lines = as_lines("THE NEEDLE\nthe needle")
    assert [h.index for h in scan(lines, make_fingerprint("a", "the needle"))] == [1]
    assert [h.index for h in scan(lines, make_fingerprint("a", "(?i)the needle"))] == [0, 1]


def test_a_line_that_announces_another_try_names_no_mechanism_for_certain(as_lines):
    lines = as_lines("the needle, retrying in 2 s\nthe needle (attempt 1 of 5)\nthe needle: max retries exceeded")
    assert [h.specific for h in scan(lines, make_fingerprint("a", "the needle"))] == [False, False, True]


def test_a_counter_or_switch_named_after_a_failure_is_none(as_lines):
    lines = as_lines("the needle: 0\nthe needle: none found\nthe needle: off, fine\nthe needle: 3\nthe needle")
    assert [h.index for h in scan(lines, make_fingerprint("a", "the needle"))] == [3, 4]


def test_unless_and_when_narrow_a_pattern(as_lines):
    lines = as_lines("wanted 8, free 4\nwanted 8, free 40\nwanted 9, free 1 (retrying)")
    fingerprint = make_fingerprint(
        "a",
        r"wanted (?P<wanted_count>\d+), free (?P<free_count>\d+)",
        when="wanted_count > free_count",
        unless="retrying",
    )
    assert [h.index for h in scan(lines, fingerprint)] == [0]


def test_arithmetic_makes_more_facts(as_lines):
    lines = as_lines("wanted 8, free 4")
    fingerprint = make_fingerprint(
        "a",
        r"wanted (?P<wanted_count>\d+), free (?P<free_count>\d+)",
        facts=(("short_count", "wanted_count - free_count"), ("no_count", "missing - 1")),
    )
    (hit,) = scan(lines, fingerprint)
    assert dict(hit.facts) == {"wanted_count": 8, "free_count": 4, "short_count": 4}


def test_exception_and_frames_bind_a_pattern_to_the_traceback_it_stands_in(as_lines):
    lines = as_lines(f"KeyErrors: 'newmodel'\n{TRACEBACK}")
    plain = make_fingerprint("a", "'newmodel'", exception="KeyError$")
    assert [h.index for h in scan(lines, plain)] == [4]
    assert scan(lines, make_fingerprint("a", "'newmodel'", exception="^ValueError$")) == []
    assert [h.index for h in scan(lines, make_fingerprint("a", "'newmodel'", frames="auto/factory.py:resolve"))] == [4]
    assert scan(lines, make_fingerprint("a", "'newmodel'", exception="KeyError$", unless_frames="auto/")) == []


def test_context_reaches_sixty_lines_both_ways_and_no_further(as_lines):
    near = as_lines("\n".join(["the needle", *["."] * (CONTEXT_LINES - 1), "companion"]))
    far = as_lines("\n".join(["companion", *["."] * CONTEXT_LINES, "the needle"]))
    wants = make_fingerprint("a", "the needle", context="companion")
    refuses = make_fingerprint("a", "the needle", unless_context="companion")
    assert len(scan(near, wants)) == 1
    assert scan(far, wants) == []
    assert scan(near, refuses) == []
    assert len(scan(far, refuses)) == 1


def test_a_message_of_several_lines_is_matched_as_one(as_lines):
    lines = as_lines(
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: sizes must\nmatch: 3 and 4'
    )
    assert len(scan(lines, make_fingerprint("a", "sizes must match: 3"))) == 1


def test_a_message_repeated_without_end_is_kept_a_bounded_number_of_times(as_lines):
    lines = as_lines("\n".join(["the needle"] * (HITS_A_FINGERPRINT + 50)))
    hits = scan(lines, make_fingerprint("a", "the needle"))
    assert len(hits) == HITS_A_FINGERPRINT
    assert hits[0].index == 0


def test_numeric_fingerprints_hold_of_features_and_point_at_their_anchor():
    one = Fingerprint(id="a/grew", label="a", role="root", specific=True, metrics="growth >= 10", anchor="peak")
    other = Fingerprint(id="a/flat", label="a", role="root", specific=True, metrics="growth < 2")
    taxonomy = make_taxonomy(make_entry("a", one, other))
    (hit,) = numeric_hits(taxonomy, {"growth": 50.0}, {"peak": 7, "event": 9}, "metrics")
    assert (hit.fingerprint, hit.index, hit.by) == ("a/grew", 7, "metrics")
    (hit,) = numeric_hits(taxonomy, {"growth": 1.0}, {"event": 9}, "ranks")
    assert (hit.fingerprint, hit.index, hit.by) == ("a/flat", 9, "ranks")
    assert list(numeric_hits(taxonomy, {}, {}, "metrics")) == []
