"""Bounded memory on large logs, and the reader against many more hostile inputs than the quick tests try."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from test_diagnoser import LOGS, UNMASKED
from trainwreck.errors import InputError

pytestmark = pytest.mark.slow

OOM = (
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.83 GiB. GPU 2 has a total capacity of 79.11 GiB\n"
)
LIMIT_BYTES = 350 * 10**6
MEASURE = """
import json, pathlib, resource, sys, trainwreck
found = trainwreck.diagnose(pathlib.Path(sys.argv[1]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([found.label, found.first_failure and found.first_failure.line, peak]))
"""


def progress(start: int, count: int) -> bytes:
    return b"".join(
        b"[2026-03-02 09:%02d:%02d] step %7d | loss %.4f | grad_norm 1.231 | lr 6.00e-04 | 249,871 tok/s\n"
        % (n // 60 % 60, n % 60, n, 1.2 + 9 / (1 + n / 100_000))
        for n in range(start, start + count)
    )


@pytest.mark.parametrize("where", ["end", "middle"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_log_of_300_megabytes_is_diagnosed_in_350(tmp_path: Path, where: str, packed: bool) -> None:
    path = tmp_path / "train.log"
    lines, written, failed_at = 0, 0, 0
    with gzip.open(path, "wb", 1) if packed else path.open("wb") as log:
        while written < 300_000_000:
            block = progress(lines, 50_000)
            written += log.write(block)
            lines += 50_000
            if where == "middle" and not failed_at and written > 150_000_000:
                log.write(OOM)
                failed_at = lines = lines + 1
        if where == "end":
            log.write(OOM)
            failed_at = lines + 1
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    label, line, peak = json.loads(done.stdout)
    assert peak <= LIMIT_BYTES
    if where == "end":
        assert (label, line) == ("gpu-out-of-memory", failed_at)
    else:  # progress went on after it
        assert label == "healthy"


@settings(max_examples=4_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LOGS)
def test_four_thousand_hostile_logs_give_a_diagnosis(data: bytes) -> None:
    try:
        found = UNMASKED.diagnose(data)
    except InputError:
        return
    assert found.label in UNMASKED.taxonomy.entries
    for quote in (*found.evidence, *found.collateral):
        assert not {c for c in quote.text if (ord(c) < 32 and c != "\t") or 127 <= ord(c) < 160}
