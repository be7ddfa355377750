"""Processes in which the runtime `fastest` tries other runtimes: the parent's side, and the program they run.

Each runtime has its own process, since compiling may crash a process and an engine may hang.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
from sentbed.errors import SentbedError, reason_of, shortened
from sentbed.protocols import Prepared
from sentbed_common import signal_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Request: TypeAlias = Literal["encode", "score"]
"""What a process is asked to do: encode all texts, or score the evaluations."""

PROGRAM = (
    "from sentbed_workbench.trial_process import answer_requests; answer_requests()"
)

CORRELATIONS = ("spearman", "pearson")
"""Statistics of the scores that are compared. If the last digits of vectors change, correlations hardly change,
but a classifier may choose another class."""


class TrialError(SentbedError):
    """Raised with the reason why a runtime is dropped."""


@attrs.frozen
class Task:
    """Encoders that a process builds, and texts that it encodes."""

    recipe: Any
    """The recipe, with the runtime that is tried."""
    texts: Mapping[str, Sequence[str]]
    """Name of an encoder -> texts that it encodes for each request."""
    scored_texts: int
    """Largest number of texts of all scored evaluations together. An evaluation that exceeds it is skipped."""


@attrs.frozen
class Round:
    """Duration and vectors of one encoding of all texts."""

    seconds: float
    vectors: Sequence[NDArray[np.float32]]
    """Vectors of each encoder: `(texts, width)`, or `(tokens, width)` for token vectors."""


@attrs.frozen
class Failure:
    """Answer of a process whose runtime raised an exception."""

    reason: str


class TrialProcess:
    """A process that builds a recipe's encoders on a runtime and answers requests, as its parent sees it."""

    def __init__(self, task: Task) -> None:
        """Start the process. Raises `TrialError` if the task cannot be pickled."""
        try:
            # The task is sent with the first request.
            self._unsent = pickle.dumps(task)
        except Exception as error:
            # A class may refuse pickling with any exception.
            message = f"it cannot be sent to another process ({reason_of(error)})"
            raise TrialError(message) from error

        modules = os.pathsep.join(path for path in sys.path if path)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        # In a new session, Ctrl-C reaches only the parent, which ends the process.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": modules},
            start_new_session=True,
        )

    def encode(self, seconds: float) -> Round:
        """Encode all texts; the first call also builds the encoders. Raises `TrialError`; see `_ask`."""
        answer: Round = self._ask("encode", seconds)
        return answer

    def score(self, seconds: float) -> Mapping[str, float]:
        """Return the correlations among scores, by `EVALUATION/TASK/METRIC`. Raises `TrialError`; see `_ask`."""
        answer: Mapping[str, float] = self._ask("score", seconds)
        return answer

    def _ask(self, request: Request, seconds: float) -> Any:
        """Return the answer to a request.

        Raises:
            TrialError: if the runtime fails, or if the process ends or does not answer within `seconds`. In each
                case, the process is not running any more.
        """
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            self._process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            answer = self._exchange(request)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            code = self._process.wait()
            if is_late.is_set():
                message = f"no answer within {seconds:g} s; raise `seconds`"
                raise TrialError(message) from error
            raise TrialError(self._reason_of_end(code)) from error
        finally:
            timer.cancel()

        if isinstance(answer, Failure):
            self._process.kill()
            self._process.wait()
            raise TrialError(answer.reason)
        return answer

    def _exchange(self, request: Request) -> Any:
        """Send a request, with the task if it is the first, and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(self._unsent + f"{request}\n".encode())
        self._process.stdin.flush()
        self._unsent = b""
        return pickle.load(self._process.stdout)

    def _reason_of_end(self, code: int) -> str:
        """Return why the process has ended, by its exit code and the last line of its error output."""
        if code < 0:
            return f"its process was ended by {signal_name(-code)}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        reason = f"its process ended with exit code {code}"
        if lines:
            reason += f": {shortened(lines[-1])}"
        return reason

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            # The process has ended without reading the task.
            return


def answer_requests() -> None:
    """Read a task from standard input, build its encoders, and answer each request that follows."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What libraries print must not be read as an answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    requests = sys.stdin.buffer
    try:
        task: Task = pickle.load(requests)
        encoders = _encoders(task)
        while line := requests.readline():
            if line == b"score\n":
                answer: Any = _scores(task, encoders)
            else:
                answer = _encode(task, encoders)
            pickle.dump(answer, answers)
            answers.flush()
    except Exception as error:  # noqa: BLE001 - any exception is a reason to drop the runtime
        pickle.dump(Failure(reason_of(error)), answers)
        answers.flush()


def _encoders(task: Task) -> dict[str, Any]:
    """Build the encoders of a task."""
    from sentbed import build_encoder

    encoders = {}
    for name in task.texts:
        encoders[name] = build_encoder(task.recipe, name)
    return encoders


def _encode(task: Task, encoders: Mapping[str, Any]) -> Round:
    """Encode the texts of a task."""
    vectors = []
    start = time.perf_counter()
    for name, encoder in encoders.items():
        if encoder.output == "tokens":
            vectors.append(encoder.encode_tokens(task.texts[name]).rows)
        else:
            vectors.append(encoder.encode(task.texts[name]))
    return Round(time.perf_counter() - start, vectors)


def _scores(task: Task, encoders: Mapping[str, Any]) -> dict[str, float]:
    """Return the correlations among the scores, by `EVALUATION/TASK/METRIC`; see `Task.scored_texts`."""
    scores = {}
    remaining_texts = task.scored_texts
    for number, entry in enumerate(task.recipe.evaluate):
        prepared = entry.evaluator.prepare()
        if not isinstance(prepared, Prepared) or prepared.size > remaining_texts:
            continue
        remaining_texts -= prepared.size
        name = entry.encoder or task.recipe.main_encoder
        second = None
        if entry.second is not None:
            second = entry.second, encoders[entry.second]
        evaluation = encoders[name].evaluate(
            entry.evaluator, name, second, prepared=prepared
        )
        for score in evaluation.scores:
            if score.items is not None and score.items.statistic in CORRELATIONS:
                scores[f"{number}/{score.task}/{score.metric}"] = score.value
    return scores
