"""What all executors share: tasks for free workers, new workers for dead ones, and the worker's own side."""

from __future__ import annotations

import pickle
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import attrs
from sentbed.errors import RunError, SentbedError

Task = TypeVar("Task")
Result = TypeVar("Result")

Tell: TypeAlias = Callable[[int], None]
"""Called by a task's function with how much has been done since its last call."""
Told: TypeAlias = Callable[[Task, int], None]
"""Called with a task and how much more of it has been done."""
Lost: TypeAlias = Callable[[Task, str], Result]
"""Called with a task whose workers all died, and how; returns the result that is given for it."""
Function: TypeAlias = Callable[[Task, Tell], Result]
Start: TypeAlias = Callable[[int | None], Function[Task, Result]]
Say: TypeAlias = Callable[[str], object]

RETRIES = 2
"""How often the task of a worker that died is done again."""


@attrs.frozen
class Progress:
    """More of a task has been done."""

    amount: int


@attrs.frozen
class Done:
    """A task has a result."""

    result: Any


@attrs.frozen
class Failed:
    """A task's function raised an exception."""

    error: Exception
    where: str
    """The worker's traceback."""


@attrs.frozen
class Died:
    """A worker is no more."""

    how: str


News: TypeAlias = Progress | Done | Failed | Died
Worker = TypeVar("Worker", bound=Hashable)


class Transport(Protocol[Worker]):
    """How one executor reaches its workers."""

    def start_worker(self) -> Worker:
        """Start a worker."""

    def submit(self, worker: Worker, task: Any) -> None:
        """Hand over a task; that the worker has died in the meantime is told by `news`."""

    def wait(self, workers: Sequence[Worker]) -> Iterable[tuple[Worker, News]]:
        """Wait until some of these workers have something to say, and return it."""

    def shutdown(self, workers: Sequence[Worker]) -> None:
        """End workers, dead or alive, all at once."""


class WorkerTraceback(Exception):  # noqa: N818 - no error of its own
    """Where in a worker an exception was raised; the cause of the exception as it is raised again."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def run_pool(
    transport: Transport[Worker],
    workers: int,
    tasks: Sequence[Task],
    retries: int,
    told: Told[Task],
    say: Say,
    lost: Lost[Task, Any] | None = None,
) -> Generator[tuple[Task, Any], None, None]:
    """Yield each task with its result; see `Executor.run`."""
    waiting, deaths = deque(range(len(tasks))), Counter[int]()
    busy: dict[Worker, int] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = transport.start_worker()
                busy[worker] = waiting.popleft()
                transport.submit(worker, tasks[busy[worker]])
            for worker, news in transport.wait(list(busy)):
                number = busy[worker]
                task = tasks[number]
                match news:
                    case Progress(amount):
                        told(task, amount)
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
                        died = f"{deaths[number]} workers died of it, the last one {how}"
                        advice = "look at this part, and at the memory"
                        if lost is None:
                            raise RunError(f"{task}: {died}; what the others have finished is kept; {advice}")
                        yield task, lost(task, f"{died}; {advice}")
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
class Hand(Generic[Task, Result]):
    """A worker's own side: starts before the first task, and catches what its function raises."""

    start: Start[Task, Result]
    threads: int | None
    _function: Function[Task, Result] | None = attrs.field(default=None, init=False)

    def do(self, task: Task, tell: Tell) -> Done | Failed:
        """Do a task."""
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
