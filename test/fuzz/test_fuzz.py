"""A sample of the fuzzer's cases, and that the fuzzer notices what it is for."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import fuzz_reduce
import fuzz_workers
import pytest
from fuzz_mutate import mutate
from fuzz_workers import Report, run_cases

pytestmark = pytest.mark.any_triton

FUZZ = Path(__file__).parent / "fuzz.py"
SAMPLE = {
    "module": 1000,
    "grammar": 300,
    "pipeline": 300,
    "stage": 80,
    "fused": 20,
    "plan_file": 100,
    "command": 100,
    "cache": 150,
    "api": 200,
    "import": 300,
}


def run_fuzzer(kind, cases, first=0):
    command = [
        sys.executable,
        str(FUZZ),
        "--kinds",
        kind,
        "--cases",
        str(cases),
        "--first",
        str(first),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {name: int(count) for count, name in re.findall(r"^ *(\d+) (.+)$", done.stdout, re.M)}
    assert sum(counts.values()) == cases
    return counts


@pytest.mark.parametrize("kind", SAMPLE)
def test_sample_goes_well(kind):
    counts = run_fuzzer(kind, SAMPLE[kind])
    # Mutations that spoil everything would look at the parser only.
    assert counts[f"{kind}: accepted"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLE)
def test_larger_sample_goes_well(kind):
    run_fuzzer(kind, 10 * SAMPLE[kind], first=1_000_000)


def misbehave(kind, seed):
    if seed == 3:
        os.kill(os.getpid(), signal.SIGABRT)
    if seed == 5:
        time.sleep(60)
    if seed == 7:
        raise KeyError("x")
    if seed == 9:
        bytearray(2 * fuzz_workers.BYTES)
    return "accepted"


def test_crashes_hangs_errors_and_memory_are_put_down_to_their_cases(monkeypatch):
    monkeypatch.setattr(fuzz_workers, "SECONDS", 0.5)
    report = Report()
    run_cases("k", range(12), misbehave, report)
    found = {wrong.seed: wrong.what for wrong in report.wrong}
    assert list(found) == [3, 5, 7, 9]
    assert "SIGABRT" in found[3]
    assert "takes more than" in found[5]
    assert found[7].startswith("KeyError at test_fuzz.py")
    assert found[9].startswith("MemoryError")
    assert report.counts == {"k: accepted": 8, "k: wrong": 4}


def test_reducing_keeps_what_goes_wrong():
    def run(_seed, text):
        if "bad" in text and "worse" in text:
            raise ValueError("bad")
        return "accepted"

    text = (
        "".join(f"line {i}\n" for i in range(20)) + "a bad line\n" + "x\n" * 20 + "a worse line\n"
    )
    assert fuzz_reduce.reduce_text("k", 0, run, text) == "badworse"


def test_a_seed_names_one_input():
    import random

    text = 'chunk.plan @p mesh [2] {\n  %a = chunk.buffer "a" : !chunk.buffer<4xf32>\n}\n'
    made = {mutate(random.Random(seed), text, [text]) for seed in range(200)}
    assert made == {mutate(random.Random(seed), text, [text]) for seed in range(200)}
    assert len(made) > 100
