"""Damage files by the thousand, and have sentbed read them.

`python tests/fuzz [TARGET...] --cases N --seed S`, or `make fuzz CASES=N`.

Each case is decided by target, seed and number, and runs in a process of its target with a limit of time and
memory. A finding is an error that is not sentbed's, a case over its limits, a process that ends, or damage
that changes what is read without a word; it is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from random import Random

from targets import TARGETS, ChangedError

SECONDS = 10.0
"""Longest time of a case."""

GIGABYTES = 3.0
"""Largest memory of the process after a case."""

START_SECONDS = 300.0
"""Longest time in which a target makes its whole files."""


def work(target, seed, numbers):
    """Run cases of a target, and print a line of JSON before and after each."""
    from sentbed.errors import SentbedError

    warnings.simplefilter("ignore")
    # What libraries print goes to standard error, also what they print past Python.
    say = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(**content):
        print(json.dumps(content), file=say, flush=True)

    with tempfile.TemporaryDirectory(prefix="sentbed-fuzz-") as place:
        case = TARGETS[target](Path(place))
        for number in numbers:
            tell(number=number)
            message = ""
            try:
                case(Random(f"{target} {seed} {number}"))
                verdict = "accepted"
            except SentbedError:
                verdict = "refused"
            except ChangedError as error:
                verdict, message = "changed", str(error)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - a panic of a library in Rust is a finding too
                last = traceback.extract_tb(error.__traceback__)[-1]
                verdict = "raised"
                message = f"{type(error).__name__}: {str(error)[:300]} @ {last.filename}:{last.lineno}"
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            if peak > GIGABYTES:
                tell(number=number, verdict="memory", said=f"{peak:.1f} GB")
                return
            tell(number=number, verdict=verdict, said=message)


class Worker:
    """Process that runs cases, and its lines."""

    def __init__(self, target, seed, first, last):
        command = [
            sys.executable,
            __file__,
            target,
            "--seed",
            str(seed),
            "--work",
            f"{first}:{last}",
        ]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the worker
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def next(self, seconds):
        """Return the next line, or None at the end. Raises `queue.Empty` after so many seconds."""
        line = self.lines.get(timeout=seconds)
        return None if line is None else json.loads(line)


def fuzz(target, seed, numbers):
    """Run the cases of a target; return how many ended how, and the findings: number, verdict, words."""
    ends = Counter()
    findings = []
    following = numbers.start
    while following < numbers.stop:
        worker = Worker(target, seed, following, numbers.stop)
        running = None
        try:
            while True:
                line = worker.next(START_SECONDS if running is None else SECONDS)
                if line is None:
                    break
                number = line["number"]
                if "verdict" not in line:
                    running = number
                    continue
                running, following = None, number + 1
                ends[line["verdict"]] += 1
                if line["verdict"] not in ("accepted", "refused"):
                    findings.append((number, line["verdict"], line["said"]))
            code = worker.process.wait()
            if running is None and following < numbers.stop and code != 0:
                worker.errors.seek(0)
                raise SystemExit(
                    f"the target `{target}` cannot make its files:\n{worker.errors.read()[-2000:]}"
                )
            end, message = "ended", f"the process ended with {code}"
        except queue.Empty:
            end, message = "hung", f"more than {SECONDS:g} s"
        finally:
            worker.process.kill()
            worker.process.wait()
        if running is not None:
            ends[end] += 1
            findings.append((running, end, message))
            following = running + 1
    return ends, findings


def main():
    """Run the targets that are named, or all; the exit code is 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="number of the one case to run")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(
            f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}"
        )
    if options.work:
        first, _, last = options.work.partition(":")
        work(options.targets[0], options.seed, range(int(first), int(last)))
        return 0
    numbers = (
        range(options.cases)
        if options.only is None
        else range(options.only, options.only + 1)
    )
    count_of_findings = 0
    for target in options.targets or TARGETS:
        start = time.monotonic()
        ends, findings = fuzz(target, options.seed, numbers)
        listed = ", ".join(f"{count:,} {end}" for end, count in ends.most_common())
        print(
            f"{target}: {len(numbers):,} cases, {listed}, {time.monotonic() - start:.0f} s",
            flush=True,
        )
        for number, verdict, message in findings:
            print(f"  {verdict}: {message}")
            print(
                f"    python tests/fuzz {target} --seed {options.seed} --only {number}",
                flush=True,
            )
        count_of_findings += len(findings)
    return 1 if count_of_findings else 0


if __name__ == "__main__":
    sys.exit(main())
