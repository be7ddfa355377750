"""Loop that distributes tasks to the workers of any executor, and replaces workers that die."""

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
"""How many times a task is run again after its worker died."""


@attrs.frozen
class Progress:
    """Progress within a task."""

    amount: int


@attrs.frozen
class Done:
    """Result of a task."""

    result: Any


@attrs.frozen
class Failed:
    """Exception that a task raised."""

    error: Exception
    where: str
    """The worker's traceback."""


@attrs.frozen
class Died:
    """Death of a worker."""

    how: str
    """Such as `was killed by SIGKILL`."""


Event: TypeAlias = Progress | Done | Failed | Died
Worker = TypeVar("Worker", bound=Hashable)


class Transport(Protocol[Worker]):
    """Communication of one executor with its workers."""

    def start_worker(self) -> Worker:
        """Start a worker."""

    def submit(self, worker: Worker, task: Any) -> None:
        """Send a task to a worker; if the worker has died, `wait` reports it."""

    def wait(self, workers: Sequence[Worker]) -> Iterable[tuple[Worker, Event]]:
        """Wait until there are events of these workers, and return them."""

    def shutdown(self, workers: Sequence[Worker]) -> None:
        """End these workers in parallel; some may be dead."""


class WorkerTraceback(Exception):  # noqa: N818 - only a cause
    """Traceback in the worker, as the cause of the exception that is raised again here."""

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
    waiting = deque(range(len(tasks)))
    deaths = Counter[int]()
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
                        count = deaths[number]
                        died = f"{count} workers died of it, the last one {how}"
                        advice = "look at this part, and at the memory"
                        if on_death is None:
                            kept = "what the others have finished is kept"
                            raise RunError(f"{task}: {died}; {kept}; {advice}")
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
    """Runs tasks in a worker: calls `start` before the first task, and catches exceptions of tasks."""

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
        except Exception as error:  # noqa: BLE001 - it is raised again in the process that called the executor
            return Failed(_portable(error), "".join(traceback.format_exception(error)))


def _portable(error: Exception) -> Exception:
    """Return the exception, or one with the same message if it cannot be pickled."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - any class may forbid it in its own way
        copy = None
    if type(copy) is type(error) and str(copy) == str(error):
        return error
    if isinstance(error, SentbedError):
        return RunError(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")
