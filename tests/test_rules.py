"""The rules on a small taxonomy: roles, strength, order, survival."""

from conftest import make_entry, make_fingerprint, make_taxonomy
from trainwreck import tracebacks
from trainwreck.diagnosis import Line
from trainwreck.metrics.formats import read_series
from trainwreck.metrics.shape import shape_of
from trainwreck.ordering import incidents
from trainwreck.rules import RULES, decide
from trainwreck.scanning import Scanner, numeric_hits
from trainwreck.taxonomy import Fingerprint

PRECISION = dict.fromkeys(RULES, 0.5) | {"specific": 0.9, "contested": 0.7}

TAXONOMY = make_taxonomy(
    make_entry(
        "oom",
        make_fingerprint("oom", "device is out of memory"),
        make_fingerprint("oom", "allocator retried", role="confirms", specific=False),
        family="memory",
    ),
    make_entry("shape", make_fingerprint("shape", "sizes do not match"), make_fingerprint("shape", "sizes do not match at dimension")),
    make_entry("value", make_fingerprint("value", "ValueError: ", specific=False, exception="ValueError$"), family="python"),
    make_entry("hang", make_fingerprint("hang", "collective timed out", role="collateral"), family="distributed"),
    make_entry("child", make_fingerprint("child", "child process failed", role="collateral", specific=False), family="distributed"),
    make_entry("lost", make_fingerprint("lost", "fallen off the bus"), family="gpu", layer="hardware"),
    make_entry("fault", make_fingerprint("fault", "illegal memory access"), family="gpu", hardware_can_cause=True),
    make_entry("stop", make_fingerprint("stop", "KeyboardInterrupt"), family="process"),
    make_entry(
        "nan",
        Fingerprint(id="nan/m", label="nan", role="root", specific=True, metrics="nonfinite >= 1", anchor="nonfinite"),
        family="numerics",
    ),
    make_entry(
        "flat",
        Fingerprint(id="flat/m", label="flat", role="root", specific=True, metrics="flat <= 0.001 and reports >= 5"),
        family="numerics",
        severity="degraded",
    ),
    make_entry("nvcc", make_fingerprint("nvcc", "not found", specific=False), family="environment"),
    make_entry("not-memory", make_fingerprint("oom", "this is only a drill", role="excludes"), family="memory"),
    make_entry("healthy", make_fingerprint("healthy", "job finished", role="confirms", specific=False), family="outcome"),
)  # fmt: skip


def judge(lines):
    records = tracebacks.parse(lines)
    shape = shape_of(read_series(lines), lines)
    hits = [*Scanner(TAXONOMY).hits(lines, records), *numeric_hits(TAXONOMY, shape.features, shape.anchors, "metrics")]
    return decide(TAXONOMY, lines, records, hits, incidents(lines, records, hits), shape, PRECISION)


def losses(*values, start=10):
    return "\n".join(f"step {start + 10 * n} loss {value} grad_norm 1.0 lr 1e-4" for n, value in enumerate(values))


def test_a_named_mechanism_beats_a_generic_exception_before_it(as_lines):
    (verdict,) = judge(as_lines("ValueError: bad thing\ndevice is out of memory"))
    assert (verdict.label, verdict.rule, verdict.confidence) == ("oom", "specific", 0.9)
    assert verdict.runner_up == "value"
    assert "weaker" in verdict.runner_up_lost_because


def test_the_earlier_of_two_named_mechanisms_wins_with_less_confidence(as_lines):
    first = judge(as_lines("device is out of memory\nsizes do not match"))[0]
    assert (first.label, first.rule, first.confidence, first.index) == ("oom", "contested", 0.7, 0)
    assert first.alternatives[0][0] == "shape"
    assert sum(p for _, p in first.alternatives) + first.confidence <= 1.0


def test_an_echo_labels_a_log_only_when_there_is_nothing_better(as_lines):
    assert judge(as_lines("collective timed out\ndevice is out of memory"))[0].label == "oom"
    assert judge(as_lines("child process failed\ncollective timed out"))[0].label == "hang"
    assert judge(as_lines("child process failed"))[0].rule == "echo"


def test_hardware_evidence_beats_an_earlier_software_symptom(as_lines):
    verdict = judge(as_lines("illegal memory access\nGPU has fallen off the bus"))[0]
    assert verdict.label == "lost"
    assert "hardware" in verdict.runner_up_lost_because


def test_hardware_evidence_does_not_beat_an_earlier_failure_that_hardware_cannot_cause(as_lines):
    assert judge(as_lines("device is out of memory\nGPU has fallen off the bus"))[0].label == "oom"


def test_one_class_said_twice_is_one_claim_and_confirmations_are_evidence(as_lines):
    (verdict,) = judge(as_lines("allocator retried\ndevice is out of memory\ndevice is out of memory"))
    assert verdict.rule == "specific"
    assert [hit.role for hit in verdict.supporting] == ["confirms", "root"]


def test_an_exclusion_silences_its_class(as_lines):
    lines = as_lines("device is out of memory\nthis is only a drill\nsizes do not match")
    assert judge(lines)[0].label == "shape"


def test_a_failure_followed_by_progress_to_the_end_was_survived(as_lines):
    verdict = judge(as_lines(f"{losses(3.1, 2.9)}\ndevice is out of memory\n{losses(2.8, 2.7, 2.6, start=100)}"))[0]
    assert (verdict.label, verdict.rule) == ("healthy", "progress")
    assert "followed by progress" in verdict.because


def test_a_failure_at_the_end_of_progress_was_not_survived(as_lines):
    assert judge(as_lines(f"{losses(3.1, 2.9, 2.8)}\ndevice is out of memory"))[0].label == "oom"


def test_numbers_that_went_wrong_beat_the_person_who_then_stopped_the_run(as_lines):
    assert judge(as_lines(f"{losses(3.1, 2.9, 'nan', 'nan')}\nKeyboardInterrupt"))[0].label == "nan"
    assert judge(as_lines(f"{losses(3.1, 2.9, 2.8)}\nKeyboardInterrupt"))[0].label == "stop"


def test_a_cause_of_its_own_beats_numbers_that_went_wrong_earlier(as_lines):
    assert judge(as_lines(f"{losses(3.1, 2.9, 'nan', 'nan')}\ndevice is out of memory"))[0].label == "oom"


def test_progress_of_another_rank_or_file_does_not_bring_back_the_dead():
    def line(number, text, **fields):
        return Line(number=number, text=text, quote=text, **fields)

    other_file = [line(1, "device is out of memory", file="job.err")]
    other_file += [line(n, f"step {n} loss {4 - n / 10} lr 1e-4", file="job.out") for n in range(1, 9)]
    assert judge(other_file)[0].label == "oom"
    other_rank = [line(1, "device is out of memory", rank=3, speaker="rank3")]
    other_rank += [line(n, f"step {n} loss {4 - n / 10} lr 1e-4", rank=0, speaker="rank0") for n in range(2, 9)]
    assert judge(other_rank)[0].label == "oom"


def test_a_failure_that_the_run_left_behind_is_not_blamed_for_a_later_one(as_lines):
    text = f"{losses(3.1, 2.9)}\nsizes do not match\n{losses(2.8, 2.7, 2.6, start=100)}\ndevice is out of memory"
    (verdict,) = judge(as_lines(text))
    assert (verdict.label, verdict.rule) == ("oom", "specific")


def test_failing_hardware_is_not_left_behind(as_lines):
    text = f"{losses(3.1, 2.9)}\nGPU has fallen off the bus\n{losses(2.8, 2.7, 2.6, start=100)}\nillegal memory access"
    assert judge(as_lines(text))[0].label == "lost"


def test_a_curve_that_is_merely_bad_ends_no_run(as_lines):
    flat = losses(*(["2.3026"] * 12))
    assert judge(as_lines(flat))[0].label == "flat"
    assert judge(as_lines(f"{flat}\nValueError: bad thing"))[0].label == "value"


def test_among_generic_signs_an_exception_comes_before_a_line_outside_any(as_lines):
    text = 'sh: nvcc: not found\nTraceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: bad thing'
    assert judge(as_lines(text))[0].label == "value"


def test_an_exception_that_nothing_knows_is_unknown_and_not_healthy(as_lines):
    text = f'{losses(3.1, 2.9)}\nTraceback (most recent call last):\n  File "a.py", line 1, in f\nStrangeError: oh'
    (verdict,) = judge(as_lines(text))
    assert (verdict.label, verdict.unknown_because) == ("unknown", "not_covered")
    assert verdict.index is not None


def test_an_error_at_the_end_that_nothing_knows_is_quoted():
    lines = [Line(number=n, text=f"step {n}", quote="") for n in range(1, 4)]
    lines.append(Line(number=4, text="stage 3 aborted: checksum differs", quote="", level="ERROR"))
    (verdict,) = judge(lines)
    assert (verdict.label, verdict.unknown_because, verdict.index) == ("unknown", "not_covered", 3)


def test_text_that_no_job_prints_is_unknown_and_not_healthy(as_lines):
    (verdict,) = judge(as_lines("It was the best of times,\nit was the worst of times,"))
    assert (verdict.label, verdict.unknown_because) == ("unknown", "not_a_job_log")


def test_failures_of_other_processes_are_listed_after_the_answer():
    lines = [
        Line(number=1, text="device is out of memory", quote="", rank=0, speaker="rank0"),
        Line(number=2, text="sizes do not match", quote="", rank=1, speaker="rank1"),
        Line(number=3, text="illegal memory access", quote="", rank=0, speaker="rank0"),
    ]
    assert [v.label for v in judge(lines)] == ["oom", "shape"]
