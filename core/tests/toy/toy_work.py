"""What workers do in tests: other processes import it by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import attrs
from sentbed import DataError, Problem, RecipeError
from sentbed._signals import Stop


class AwkwardError(Exception):
    """Cannot be pickled."""

    def __reduce__(self):
        raise TypeError("no")


@attrs.frozen
class Doubling:
    """Doubles numbers, and does to itself what the task asks for; notes in `directory` who was started."""

    directory: Path
    deaths: int = 1
    """How often the task `-1` kills its worker before it is done."""

    def __call__(self, threads):
        if (self.directory / "broken").exists():
            raise DataError("it cannot start")
        self.note(
            "started",
            f"{os.getpid()} {threads} {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}",
        )
        return self.double

    def note(self, name, text):
        with (self.directory / name).open("a") as stream:
            stream.write(f"{text}\n")

    def double(self, task):
        self.note("did", f"{os.getpid()} {task}")
        match task:
            case -1 if len(self.notes("died")) < self.deaths:
                self.note("died", str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            case -3:
                raise DataError("bad row", "corpus.jsonl", 3)
            case -4:
                raise RecipeError([Problem("wrong", "runtime.use")])
            case -5:
                raise AwkwardError("hard to carry")
            case -6:
                self.sleep()
            case -7:
                self.note("asleep", str(os.getpid()))
                while not (self.directory / "awake").exists():
                    time.sleep(0.01)
            case -8:
                self.save()
            case -9:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                self.sleep()
        return 2 * task

    def sleep(self):
        try:
            self.note("asleep", str(os.getpid()))
            time.sleep(60)
        finally:
            self.note("cleaned", str(os.getpid()))

    def save(self):
        """Wait for the end as a run does: what has been done is saved, which takes a while."""
        stop = Stop(lambda _: None)
        with stop.listening(), stop.patient():
            self.note("asleep", str(os.getpid()))
            while stop.asked is None:
                time.sleep(0.01)
            self.note("ended", f"asked {os.getpid()}")
            time.sleep(0.7)
            self.note("ended", f"saved {os.getpid()}")
        raise KeyboardInterrupt

    def notes(self, name):
        file = self.directory / name
        if not file.exists():
            return []
        return [line.split() for line in file.read_text().splitlines()]


def wait_for_sleepers(work, count):
    """Wait for so many workers that wait for their end."""
    deadline = time.monotonic() + 60
    while len(work.notes("asleep")) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
