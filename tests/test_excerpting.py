"""Large sources. The excerpt must hold what matters, with the true numbers, whatever the file looks like."""

import gzip

import pytest

from conftest import make_entry, make_fingerprint, make_taxonomy
from trainwreck import excerpting
from trainwreck.excerpting import BLOCK, excerpt
from trainwreck.reading.sources import find_sources
from trainwreck.scanning import Scanner

LIMIT = 2 * 2**20
SCANNER = Scanner(make_taxonomy(make_entry("a", make_fingerprint("a", "the needle"))))
FILLER = [
    f"2026-01-01 00:00:00 INFO worker: step {n} done, nothing to see in this line at all\n" for n in range(120_000)
]


def lines_of(path):
    (source,) = find_sources(path)
    return excerpt(source, SCANNER, LIMIT)


@pytest.mark.parametrize("where", [0, 3, 41_234, 77_777, 119_999])
@pytest.mark.parametrize("packed", [False, True])
def test_the_needle_is_read_with_its_number_and_its_surroundings(tmp_path, where, packed):
    rows = list(FILLER)
    rows[where] = "here is the needle\n"
    path = tmp_path / ("big.log.gz" if packed else "big.log")
    data = "".join(rows).encode()
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    lines = lines_of(path)
    assert [line.number for line in lines if "the needle" in line.text] == [where + 1]
    around = {line.number for line in lines}
    assert {n for n in range(where - 20, where + 20) if 1 <= n <= 120_000} <= around
    assert sum(len(line.quote) for line in lines) < LIMIT + 2 * BLOCK


def test_every_line_of_an_excerpt_carries_its_own_number(tmp_path):
    path = tmp_path / "big.log"
    path.write_text("".join(f"line {n} " + "x" * (n % 97) + "\n" for n in range(1, 60_001)))
    lines = lines_of(path)
    assert len(lines) > 1_000
    for line in lines:
        assert line.quote.startswith(f"line {line.number} ")
    assert [line.number for line in lines] == sorted({line.number for line in lines})


def test_head_and_tail_are_always_read(tmp_path):
    path = tmp_path / "big.log"
    path.write_text("".join(FILLER))
    numbers = [line.number for line in lines_of(path)]
    assert numbers[0] == 1
    assert numbers[-1] == len(FILLER)


def test_a_frequent_literal_does_not_crowd_out_a_rare_one(tmp_path):
    common = Scanner(
        make_taxonomy(make_entry("a", make_fingerprint("a", "the needle"), make_fingerprint("a", "nothing to see")))
    )
    rows = list(FILLER)
    rows[60_000] = "here is the needle\n"
    path = tmp_path / "big.log"
    path.write_text("".join(rows))
    (source,) = find_sources(path)
    assert 60_001 in {line.number for line in excerpt(source, common, LIMIT) if "the needle" in line.text}


def test_a_short_literal_does_not_hide_the_long_one_that_holds_it(tmp_path):
    both = Scanner(
        make_taxonomy(make_entry("a", make_fingerprint("a", "fallen off the bus"), make_fingerprint("a", " off ")))
    )
    rows = ["heartbeat: fallen 0, off the grid 0, the bus is ok\n"] * 90_000
    rows[45_000] = "the GPU has fallen off the bus\n"
    path = tmp_path / "big.log"
    path.write_text("".join(rows))
    (source,) = find_sources(path)
    assert 45_001 in {line.number for line in excerpt(source, both, LIMIT)}


@pytest.mark.parametrize("limit", [0, BLOCK, 4 * BLOCK])
def test_of_a_small_excerpt_the_end_and_the_first_hit_are_read(tmp_path, limit):
    rows = list(FILLER)
    rows[50_000] = "here is the needle\n"
    path = tmp_path / "big.log"
    path.write_text("".join(rows))
    (source,) = find_sources(path)
    lines = excerpt(source, SCANNER, limit)
    assert {50_001, len(rows)} <= {line.number for line in lines}
    assert sum(len(line.quote) + 1 for line in lines) <= max(2 * BLOCK, limit) + 2_000


def test_a_literal_across_the_border_of_two_chunks_is_seen(tmp_path):
    start = excerpting.CHUNK - 4
    path = tmp_path / "big.log"
    path.write_bytes(
        (b"x" * 79 + b"\n") * (start // 80) + b"y" * (start % 80) + b"the needle\n" + (b"z" * 79 + b"\n") * 100_000
    )
    assert any("the needle" in line.text for line in lines_of(path))


def test_one_line_of_ten_megabytes_keeps_number_one(tmp_path):
    path = tmp_path / "one.log"
    path.write_bytes(b"a" * 5_000_000 + b" the needle " + b"b" * 5_000_000)
    assert {line.number for line in lines_of(path)} == {1}


def test_utf_16_is_read_as_text(tmp_path):
    path = tmp_path / "wide.log"
    path.write_text("".join(FILLER[:40_000]) + "here is the needle\n", encoding="utf-16")
    assert [line.number for line in lines_of(path) if "the needle" in line.text] == [40_001]


def test_progress_is_told_in_bytes(tmp_path):
    path = tmp_path / "big.log"
    path.write_text("".join(FILLER))
    told = []
    (source,) = find_sources(path)
    excerpt(source, SCANNER, LIMIT, told.append)
    assert sum(told) == path.stat().st_size


def test_lines_longer_than_a_block_keep_their_numbers(tmp_path):
    rows = [
        f"line {n} " + ("x" * 50_000 if n % 5 == 0 else "short") + (" the needle" if n % 3 == 0 else "")
        for n in range(1, 300)
    ]
    path = tmp_path / "wide.log"
    path.write_text("\n".join(rows) + "\n")
    (source,) = find_sources(path)
    lines = excerpt(source, SCANNER, 64 * BLOCK)
    assert len(lines) > 20
    for line in lines:
        if line.quote.startswith("line "):
            assert line.quote.startswith(f"line {line.number} ")


def test_a_rare_literal_is_read_before_the_neighbours_of_common_ones(tmp_path):
    words = [f"marker{n:02d}" for n in range(40)]
    many = Scanner(make_taxonomy(make_entry("a", *(make_fingerprint("a", w) for w in (*words, "the needle")))))
    rows = [
        f"{FILLER[0].strip()} {words[n % 40]}\n" if n < 60_000 and n % 37 == 0 else FILLER[0] for n in range(150_000)
    ]
    rows[80_000] = "here is the needle\n"
    path = tmp_path / "big.log"
    path.write_text("".join(rows))
    (source,) = find_sources(path)
    assert 80_001 in {line.number for line in excerpt(source, many, LIMIT)}
