"""A process that tries one runtime, and the parent's side of it.

Compiling for a processor has ended processes, and some engines hang: neither does harm here.
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
"""What a process is asked for."""

PROGRAM = (
    "from sentbed_workbench.trial_process import answer_requests; answer_requests()"
)

CORRELATIONS = ("spearman", "pearson")
"""Statistics of the scores that are compared: a changed digit of a vector changes them little, while it may
turn over the class that a classifier chooses."""


class TrialError(SentbedError):
    """Why a runtime is dropped."""


@attrs.frozen
class Task:
    """What a process builds and encodes."""

    recipe: Any
    """The recipe, with the runtime that is tried."""
    texts: Mapping[str, Sequence[str]]
    """Encoder -> the texts that each call of `encode` encodes."""
    scored_texts: int
    """Most texts of all scored evaluations together; one that would exceed it is skipped."""


@attrs.frozen
class Round:
    """What one encoding of all texts gave."""

    seconds: float
    vectors: Sequence[NDArray[np.float32]]
    """Of each encoder: `(texts, width)`, or `(tokens, width)`."""


@attrs.frozen
class Failure:
    """What a runtime raised in its process."""

    reason: str


class TrialProcess:
    """A process in which the encoders of a recipe are built on its runtime, and do what they are asked."""

    def __init__(self, task: Task) -> None:
        """Start it. Raises `TrialError` if the task cannot be sent to it."""
        try:
            self._unsent = pickle.dumps(task)
        except Exception as error:
            # A class may refuse it in its own way.
            message = f"it cannot be sent to another process ({reason_of(error)})"
            raise TrialError(message) from error
        modules = os.pathsep.join(path for path in sys.path if path)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        # In a session of its own: Ctrl-C is for the parent, which ends it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": modules},
            start_new_session=True,
        )

    def encode(self, seconds: float) -> Round:
        """Encode all texts; the first call also builds the encoders. Raises as `_ask` does."""
        answer: Round = self._ask("encode", seconds)
        return answer

    def score(self, seconds: float) -> Mapping[str, float]:
        """Return those scores of evaluations that are correlations, by name. Raises as `_ask` does."""
        answer: Mapping[str, float] = self._ask("score", seconds)
        return answer

    def _ask(self, request: Request, seconds: float) -> Any:
        """Return the answer to a request.

        Raises:
            TrialError: if the process fails, ends, or does not answer within `seconds`; it has ended then.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            self._process.stdin.write(self._unsent + f"{request}\n".encode())
            self._process.stdin.flush()
            self._unsent = b""
            answer = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            answer = None
        finally:
            timer.cancel()
        if answer is not None and not isinstance(answer, Failure):
            return answer

        if answer is not None:
            self._process.kill()
        code = self._process.wait()
        if late.is_set():
            raise TrialError(f"no answer within {seconds:g} s; raise `seconds`")
        if answer is not None:
            raise TrialError(answer.reason)
        raise TrialError(self._end(code))

    def _end(self, code: int) -> str:
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
            # It ended before it had read the task.
            return


def answer_requests() -> None:
    """Build the encoders of the task on standard input, and answer each line that follows."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What libraries print is no answer.
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
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises is why it is dropped
        pickle.dump(Failure(reason_of(error)), answers)
        answers.flush()


def _encoders(task: Task) -> dict[str, Any]:
    from sentbed import build_encoder

    encoders = {}
    for name in task.texts:
        encoders[name] = build_encoder(task.recipe, name)
    return encoders


def _encode(task: Task, encoders: Mapping[str, Any]) -> Round:
    vectors = []
    start = time.perf_counter()
    for name, encoder in encoders.items():
        if encoder.output == "tokens":
            vectors.append(encoder.encode_tokens(task.texts[name]).rows)
        else:
            vectors.append(encoder.encode(task.texts[name]))
    return Round(time.perf_counter() - start, vectors)


def _scores(task: Task, encoders: Mapping[str, Any]) -> dict[str, float]:
    """Return `EVALUATION/TASK/METRIC` -> value, of evaluations with few texts."""
    scores = {}
    left = task.scored_texts
    for number, entry in enumerate(task.recipe.evaluate):
        prepared = entry.evaluator.prepare()
        if not isinstance(prepared, Prepared) or prepared.size > left:
            continue
        left -= prepared.size
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
