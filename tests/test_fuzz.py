"""A fixed sample of `make fuzz`: no damaged file ends in an error of the code, a hang or a dead process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent / "fuzz"

pytestmark = pytest.mark.slow


def fuzz(*arguments):
    return subprocess.run(
        [sys.executable, str(FUZZ), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("target", "cases"),
    [
        ("recipes", 150),
        ("studies", 100),
        ("data_files", 300),
        ("states", 30),
        ("encoders", 60),
        ("caches", 100),
        ("corpora", 100),
        ("journals", 100),
    ],
)
def test_damaged_files_are_read_or_refused(target, cases):
    done = fuzz(target, "--cases", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{target}: {cases} cases, ")
    # A damaged cache is made again.
    assert ("accepted" if target == "caches" else "refused") in done.stdout


def test_a_finding_is_printed_with_the_command_that_repeats_it(tmp_path):
    (tmp_path / "targets.py").write_text(TARGET)
    for name in ("__main__.py", "mutations.py"):
        (tmp_path / name).write_text((FUZZ / name).read_text())
    done = subprocess.run(
        [sys.executable, str(tmp_path), "--cases", "6", "--seed", "3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    summary, *lines = done.stdout.splitlines()
    assert summary.startswith("bad: 6 cases, ")
    faults = {line.partition(":")[0].strip() for line in lines[::2]}
    assert faults == {"raised", "changed", "ended", "hung"}
    assert lines[1::2] == [
        f"    python tests/fuzz bad --seed 3 --only {number}" for number in (1, 2, 3, 4)
    ]


TARGET = """
import os, time
from sentbed import SentbedError

class ChangedError(Exception):
    pass

numbers = iter(range(9))

def bad(place):
    def case(random):
        random = str(random.random())
        number = NUMBERS.index(random)
        if number == 0:
            raise SentbedError("refused")
        if number == 1:
            raise ZeroDivisionError
        if number == 2:
            raise ChangedError
        if number == 3:
            os.abort()
        if number == 4:
            time.sleep(60)
    return case

from random import Random
NUMBERS = [str(Random(f"bad 3 {number}").random()) for number in range(6)]
TARGETS = {"bad": bad}
"""
