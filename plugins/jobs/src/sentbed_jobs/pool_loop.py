"""Loop that distributes tasks to the workers of any executor, and replaces workers that die."""

from __future__ import annotations

import pickle
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from traceback import format_exception
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import attrs
from sentbed.errors import RunError, SentbedError
from sentbed_common import OnDeath, Start

Task = TypeVar("Task")
Result = TypeVar("Result")
Say: TypeAlias = Callable[[str], object]
"""Function that prints a line."""

RETRIES = 2
"""How often a task is run again after its worker has died."""


@attrs.frozen
class Done:
    """Event: a task has returned a result."""

    result: Any


@attrs.frozen
class Failed:
    """Event: a task has raised an exception."""

    error: Exception
    traceback: str
    """Traceback in the worker."""


@attrs.frozen
class Died:
    """Event: a worker has died."""

    reason: str
    """How it died, such as `ended with exit code -9`."""


Event: TypeAlias = Done | Failed | Died
Worker = TypeVar("Worker", bound=Hashable)


class Transport(Protocol[Worker]):
    """Communication between the loop and the workers of one executor."""

    def start_worker(self) -> Worker:
        """Start a worker."""

    def submit(self, worker: Worker, task: Any) -> None:
        """Send a task to a worker. If the worker has died, `wait` reports its death."""

    def wait(self, workers: Sequence[Worker]) -> Iterable[tuple[Worker, Event]]:
        """Wait until some of these workers have events, and return the events."""

    def shutdown(self, workers: Sequence[Worker]) -> None:
        """End these workers at the same time. Some of them may be dead."""


class WorkerTraceback(Exception):  # noqa: N818 - only a cause
    """Traceback of a worker: the cause of an exception that the worker raised, and that is raised again here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def run_pool(
    transport: Transport[Worker],
    workers: int,
    tasks: Sequence[Task],
    retries: int,
    say: Say,
    on_death: OnDeath[Task, Any] | None = None,
) -> Generator[tuple[Task, Any], None, None]:
    """Yield each task with its result; see `TaskPool.run`.

    Args:
        transport: Starts workers and communicates with them.
        workers: Number of workers.
        tasks: Tasks to run.
        retries: How often a task is run again after its worker has died.
        say: Gets a line for each worker that has died.
        on_death: Called with a task whose workers have died too often, and a message; returns the task's result.
            By default, a `RunError` is raised.
    """
    waiting = deque(range(len(tasks)))
    deaths = Counter[int]()
    busy: dict[Worker, int] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = transport.start_worker()
                busy[worker] = waiting.popleft()
                transport.submit(worker, tasks[busy[worker]])

            # A failure ends the loop, and must not lose results that arrive together with it.
            events = sorted(transport.wait(list(busy)), key=_comes_later)
            for worker, event in events:
                number = busy[worker]
                task = tasks[number]
                match event:
                    case Failed(error, traceback):
                        raise error from WorkerTraceback(traceback)

                    case Died(reason):
                        del busy[worker]
                        transport.shutdown([worker])
                        deaths[number] += 1
                        if deaths[number] <= retries:
                            say(f"a worker {reason}; {task}: done again by a new one")
                            waiting.appendleft(number)
                            continue
                        count = deaths[number]
                        died = f"{count} workers died of it, the last one {reason}"
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


def _comes_later(event_of_worker: tuple[Any, Event]) -> bool:
    """Whether an event is handled after the results that arrive together with it."""
    _, event = event_of_worker
    return not isinstance(event, Done)


@attrs.define(eq=False)
class TaskRunner(Generic[Task, Result]):
    """Runs tasks in a worker, and catches their exceptions.

    Before the first task, it calls `start`, which returns the function that runs a task.
    """

    start: Start[Task, Result]
    threads: int | None
    _function: Callable[[Task], Result] | None = attrs.field(default=None, init=False)

    def run(self, task: Task) -> Done | Failed:
        """Return the result of a task, or the exception that it has raised."""
        try:
            if self._function is None:
                self._function = self.start(self.threads)
            return Done(self._function(task))
        except Exception as error:  # noqa: BLE001 - it is raised again in the process that called the executor
            return Failed(_portable(error), "".join(format_exception(error)))


def _portable(error: Exception) -> Exception:
    """Return an exception that can be sent to another process.

    That is `error` itself or, if pickling would change it, another exception with the same message.
    """
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - a class may forbid pickling by any exception
        copy = None
    if type(copy) is type(error) and str(copy) == str(error):
        return error
    if isinstance(error, SentbedError):
        return RunError(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")
