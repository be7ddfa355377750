"""The loop of a pool of workers, which all executors share: tasks for free workers, new ones for the dead."""

from __future__ import annotations

import pickle
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import attrs
from sentbed.errors import RunError, SentbedError
from sentbed_common import OnDeath, OnProgress, Start, Tell

Task = TypeVar("Task")
Result = TypeVar("Result")
Say: TypeAlias = Callable[[str], object]

RETRIES = 2
"""How often a task is retried after its worker died."""


@attrs.frozen
class Progress:
    """Progress within a task."""

    amount: int


@attrs.frozen
class Done:
    """The result of a task."""

    result: Any


@attrs.frozen
class Failed:
    """An exception that a task raised."""

    error: Exception
    where: str
    """The worker's traceback."""


@attrs.frozen
class Died:
    """The death of a worker."""

    how: str


Event: TypeAlias = Progress | Done | Failed | Died
Worker = TypeVar("Worker", bound=Hashable)


class Transport(Protocol[Worker]):
    """Communication of one executor with its workers."""

    def start_worker(self) -> Worker:
        """Start a worker."""

    def submit(self, worker: Worker, task: Any) -> None:
        """Send a task to a worker; `wait` reports it where the worker has died in the meantime."""

    def wait(self, workers: Sequence[Worker]) -> Iterable[tuple[Worker, Event]]:
        """Wait for events of these workers and return them."""

    def shutdown(self, workers: Sequence[Worker]) -> None:
        """End workers, dead or alive, all at once."""


class WorkerTraceback(Exception):  # noqa: N818 - no error of its own
    """Traceback of an exception in its worker; the cause of the exception where it is raised again."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def run_pool(
    transport: Transport[Worker],
    workers: int,
    tasks: Sequence[Task],
    retries: int,
    on_progress: OnProgress[Task],
    say: Say,
    on_death: OnDeath[Task, Any] | None = None,
) -> Generator[tuple[Task, Any], None, None]:
    """Yield each task with its result; see `TaskPool.run`."""
    waiting, deaths = deque(range(len(tasks))), Counter[int]()
    busy: dict[Worker, int] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = transport.start_worker()
                busy[worker] = waiting.popleft()
                transport.submit(worker, tasks[busy[worker]])
            for worker, event in transport.wait(list(busy)):
                number = busy[worker]
                task = tasks[number]
                match event:
                    case Progress(amount):
                        on_progress(task, amount)
                    case Failed(error, where):
                        raise error from WorkerTraceback(where)
                    case Died(how):
                        del busy[worker]
                        transport.shutdown([worker])
                        deaths[number] += 1
                        if deaths[number] <= retries:
                            say(f"a worker {how}; {task}: done again by a new one")
                            waiting.appendleft(number)
                            continue
                        died = (
                            f"{deaths[number]} workers died of it, the last one {how}"
                        )
                        advice = "look at this part, and at the memory"
                        if on_death is None:
                            raise RunError(
                                f"{task}: {died}; what the others have finished is kept; {advice}"
                            )
                        yield task, on_death(task, f"{died}; {advice}")
                    case Done(result):
                        if waiting:
                            busy[worker] = waiting.popleft()
                            transport.submit(worker, tasks[busy[worker]])
                        else:
                            del busy[worker]
                            transport.shutdown([worker])
                        yield task, result
    finally:
        transport.shutdown(list(busy))


@attrs.define(eq=False)
class TaskRunner(Generic[Task, Result]):
    """The worker's side: calls `start` before the first task, and catches what a task raises."""

    start: Start[Task, Result]
    threads: int | None
    _function: Callable[[Task, Tell], Result] | None = attrs.field(
        default=None, init=False
    )

    def run(self, task: Task, tell: Tell) -> Done | Failed:
        """Return the result of a task, or its exception."""
        try:
            if self._function is None:
                self._function = self.start(self.threads)
            return Done(self._function(task, tell))
        except Exception as error:  # noqa: BLE001 - it is raised again where the executor was called
            return Failed(_portable(error), "".join(traceback.format_exception(error)))


def _portable(error: Exception) -> Exception:
    """Return the exception, or one with the same message where it does not survive pickling."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - any class may forbid it in its own way
        copy = None
    if type(copy) is type(error) and str(copy) == str(error):
        return error
    if isinstance(error, SentbedError):
        return RunError(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")
