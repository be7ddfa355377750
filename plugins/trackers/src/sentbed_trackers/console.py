"""Progress on the terminal: bars with rate and time left, live loss and validation score."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.errors import printable
from sentbed.protocols import Evaluation, Run, StepResult
from sentbed.tools import STATES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


SCORES_A_LINE = 4
"""Number of scores of a watched evaluation to show."""

LINE_EVERY_SECONDS = 15.0
"""Seconds between progress lines if the output is not a terminal."""


class ConsoleTracker:
    """Shows a run on standard error; plain lines where that is not a terminal."""

    def __init__(self) -> None:
        self._console: Console | None = None
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._part = ""
        """Part of an evaluation that the bar shows."""
        self._score = ""
        self._said = 0.0
        self._done: dict[str, int] = {}
        """Stage -> number of steps done when the run was resumed."""
        self._pace = ("", 0, 0.0)
        """What is counted in lines, how much of it was done at first, and when."""

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Show the run and its directory."""
        self._open()
        self._say(f"{run.name} writes to {run.directory}")

    @hookimpl
    def run_resumed(self, run: Run) -> None:
        """Show the resumed run, its checkpoint and its directory."""
        self._open()
        at = (run.facts.get("resumed") or [{"stage": 0, "step": 0}])[-1]
        names = [stage.name for stage in run.recipe.stage]
        if at["stage"] < len(names):
            name = names[at["stage"]]
            self._done[name] = at["step"]
            where = f"at stage {name} step {at['step']}"
        else:
            where = "after its last stage"
        self._say(f"{run.name} resumed {where}, writes to {run.directory}")

    @hookimpl
    def warned(self, message: str) -> None:
        """Show the warning."""
        self._say(f"warning: {message}")

    @hookimpl
    def evaluation_started(self, evaluator: str, encoder: str) -> None:
        """Say what is evaluated."""
        self._say(f"evaluating {encoder} with {evaluator}")

    @hookimpl
    def evaluation_progressed(
        self, evaluator: str, what: str, done: int, total: int
    ) -> None:
        """Advance the bar of this part, or open it; a finished part is removed."""
        if self._console is None:
            return
        if not self._console.is_terminal:
            if self._pace[0] != what:
                self._pace = (what, done, time.monotonic())
            self._say_sometimes(
                f"{evaluator}: {what} {done} of {total}{self._time(done, total)}"
            )
            return
        if self._progress is None or what != self._part:
            self._stop()
            self._open_bar(what, total, done, transient=True)
            self._part = what
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    @hookimpl
    def scores_ready(self, evaluation: Evaluation) -> None:
        """Show the scores as a table."""
        from rich.table import Table

        self._stop()
        if self._console is None:
            return
        table = Table(box=None, padding=(0, 2, 0, 2))
        for name in ("task", "metric", "protocol"):
            table.add_column(name)
        table.add_column("value", justify="right")
        for score in evaluation.scores:
            names = map(printable, (score.task, score.metric, score.protocol_name))
            table.add_row(*names, f"{score.value:.2f}")
        self._console.print(table)
        skipped = dict.fromkeys(
            task for score in evaluation.scores for task in score.skipped
        )
        if skipped:
            self._say(
                f"left out, since their data is missing (`skip_missing`): {', '.join(skipped)}"
            )

    @hookimpl
    def stage_started(self, stage: str, total_steps: int) -> None:
        """Open the bar."""
        if self._console is None:
            return
        self._stop()
        self._score = ""
        self._say(f"training stage {stage}: {total_steps} steps")
        done = self._done.pop(stage, 0)
        self._pace = (stage, done, time.monotonic())
        if self._console.is_terminal:
            self._open_bar(stage, total_steps, done)

    def _open_bar(
        self, what: str, total: int, done: int, transient: bool = False
    ) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[live]}"),
            console=self._console,
            transient=transient,
        )
        self._task = self._progress.add_task(
            printable(what), total=total, completed=done, rate="", live=""
        )
        self._progress.start()

    @hookimpl
    def step_finished(
        self, stage: str, step: int, total_steps: int, result: StepResult
    ) -> None:
        """Advance the bar."""
        live = f"loss {result.loss:.4f}{self._score}"
        if self._progress is not None and self._task is not None:
            speed = self._progress.tasks[0].speed
            rate = f"{speed:.2f} steps/s" if speed else ""
            self._progress.update(self._task, completed=step, rate=rate, live=live)
        else:
            self._say_sometimes(
                f"{stage}: step {step} of {total_steps}, {live}{self._time(step, total_steps)}"
            )

    @hookimpl
    def validated(self, step: int, score: float, best: bool) -> None:
        """Show the validation score."""
        self._score = f", validation {score:.2f}"
        kept = " (kept)" if best else ""
        self._say(f"step {step}: validation {score:.2f}{kept}")

    @hookimpl
    def observed(self, step: int, encoder: str, evaluation: Evaluation) -> None:
        """Show the scores under the first protocol in a line."""
        from sentbed.helpers import score_digits

        first = [
            s
            for s in evaluation.scores
            if s.protocol_id == evaluation.scores[0].protocol_id
        ]
        shown = [
            f"{s.task} {s.metric} {s.value:.{score_digits([s.value])}f}"
            for s in first[:SCORES_A_LINE]
        ]
        more = (
            [f"and {len(first) - SCORES_A_LINE} more"]
            if len(first) > SCORES_A_LINE
            else []
        )
        self._say(f"step {step}: {encoder}: {', '.join(shown + more)}")

    @hookimpl
    def stage_finished(
        self, stage: str, best_score: float | None, best_step: int
    ) -> None:
        """Close the bar."""
        self._stop()
        if best_score is not None:
            self._say(
                f"stage {stage} keeps step {best_step}, validation {best_score:.2f}"
            )

    @hookimpl
    def run_finished(self, run: Run, report: Path) -> None:
        """Close the bar, and show how many texts did not have to be encoded."""
        self._stop()
        counts = run.facts.get("cache", {})
        if taken := counts.get("taken"):
            self._say(
                f"{taken:,} of {taken + counts['encoded']:,} vectors came from the cache"
            )

    @hookimpl(tryfirst=True)
    def run_failed(self, run: Run) -> None:
        """Close the bar, and show what the run left."""
        self._stop()
        self._say(f"the run ended early; what it had computed is in {run.directory}")
        if (run.directory / STATES).is_dir():
            self._say(f"to go on: sentbed run --resume {run.directory}")

    def _open(self) -> None:
        from rich.console import Console

        self._console = Console(
            stderr=True, highlight=False, soft_wrap=True, markup=False
        )
        self._done = {}

    def _say(self, text: str) -> None:
        if self._console is not None:
            self._console.print(printable(text))

    def _time(self, done: int, total: int) -> str:
        """Return how long the part took until now, and how long the rest of it will take."""
        _, before, began = self._pace
        took = time.monotonic() - began
        if done <= before:
            return ""
        left = took / (done - before) * (total - done)
        return f", {timedelta(seconds=round(took))}, about {timedelta(seconds=round(left))} left"

    def _say_sometimes(self, text: str) -> None:
        if time.monotonic() - self._said > LINE_EVERY_SECONDS:
            self._said = time.monotonic()
            self._say(text)

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._task = None
            self._part = ""
