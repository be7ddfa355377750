"""Tracker that shows a run on the terminal: progress bars with rate and time left, losses and scores."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed import hookimpl
from sentbed.errors import printable
from sentbed.protocols import Evaluation, Run, StepResult
from sentbed.tools import STATES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

SCORES_PER_LINE = 4
"""Maximum number of scores that are shown of an evaluation during a stage."""

LINE_EVERY_SECONDS = 15.0
"""Seconds between progress lines if the output is not a terminal."""


@attrs.frozen
class _Start:
    """Start of a stage or of a part of an evaluation, from which its pace is computed."""

    name: str
    done: int
    """Amount that was done before the start, such as the steps that were taken before a run was resumed."""
    time: float


class ConsoleTracker:
    """Shows a run on standard error: with progress bars on a terminal, otherwise as plain lines."""

    def __init__(self) -> None:
        self._console: Console | None = None
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._part = ""
        """Part of an evaluation that the bar shows; empty during a stage."""
        self._score = ""
        """Text of the last validation score."""
        self._last_line = 0.0
        """Time of the last progress line."""
        self._done: dict[str, int] = {}
        """For the stage in which the run was resumed: number of steps that had been taken before."""
        self._start = _Start("", 0, 0.0)

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Show the name of the run and its directory."""
        self._open()
        self._say(f"{run.name} writes to {run.directory}")

    @hookimpl
    def run_resumed(self, run: Run) -> None:
        """Show the name of the resumed run, the checkpoint from which it continues, and its directory."""
        self._open()
        checkpoints = run.facts.get("resumed") or [{"stage": 0, "step": 0}]
        stage, step = checkpoints[-1]["stage"], checkpoints[-1]["step"]
        where = "after its last stage"
        if stage < len(run.recipe.stage):
            name = run.recipe.stage[stage].name
            self._done[name] = step
            where = f"at stage {name} step {step}"
        self._say(f"{run.name} resumed {where}, writes to {run.directory}")

    @hookimpl
    def warned(self, message: str) -> None:
        """Show a warning."""
        self._say(f"warning: {message}")

    @hookimpl
    def evaluation_started(self, evaluator: str, encoder: str) -> None:
        """Show which encoder is evaluated by which evaluator."""
        # The parts of two evaluations may have the same names.
        self._start = _Start("", 0, 0.0)
        self._say(f"evaluating {encoder} with {evaluator}")

    @hookimpl
    def evaluation_progressed(
        self,
        evaluator: str,
        what: str,
        done: int,
        total: int,
    ) -> None:
        """Show the progress of a part of an evaluation, such as the encoding of texts, in a bar of its own."""
        if self._console is None:
            return

        if not self._console.is_terminal:
            if self._start.name != what:
                self._start = _Start(what, done, time.monotonic())
            times = self._times(done, total)
            self._say_sometimes(f"{evaluator}: {what} {done} of {total}{times}")
            return

        if self._progress is None or what != self._part:
            self._stop()
            self._open_bar(what, total, done, transient=True)
            self._part = what
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    @hookimpl
    def scores_ready(self, evaluation: Evaluation) -> None:
        """Show the scores of an evaluation as a table."""
        from rich.table import Table
        from sentbed.helpers import score_text

        self._stop()
        if self._console is None:
            return

        table = Table(box=None, padding=(0, 2, 0, 2))
        for name in ("task", "metric", "protocol"):
            table.add_column(name)

        table.add_column("value", justify="right")

        for score in evaluation.scores:
            names = map(printable, (score.task, score.metric, score.protocol_name))
            table.add_row(*names, score_text(score.value))

        self._console.print(table)

        skipped: dict[str, None] = {}
        for score in evaluation.scores:
            skipped |= dict.fromkeys(score.skipped)

        if skipped:
            self._say(
                f"left out, since their data is missing (`skip_missing`): {', '.join(skipped)}"
            )

    @hookimpl
    def stage_started(self, stage: str, total_steps: int) -> None:
        """Open the progress bar of a stage."""
        if self._console is None:
            return

        self._stop()
        self._score = ""
        self._say(f"training stage {stage}: {total_steps} steps")
        done = self._done.pop(stage, 0)
        self._start = _Start(stage, done, time.monotonic())
        if self._console.is_terminal:
            self._open_bar(stage, total_steps, done)

    def _open_bar(
        self,
        what: str,
        total: int,
        done: int,
        transient: bool = False,
    ) -> None:
        """Open a progress bar; a transient bar disappears when it is closed."""
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
            printable(what),
            total=total,
            completed=done,
            rate="",
            live="",
        )
        self._progress.start()

    @hookimpl
    def step_finished(
        self,
        stage: str,
        step: int,
        total_steps: int,
        result: StepResult,
    ) -> None:
        """Advance the progress bar, and show the loss and the last validation score."""
        live = f"loss {result.loss:.4f}{self._score}"
        if self._progress is not None and self._task is not None:
            speed = self._progress.tasks[0].speed
            rate = f"{speed:.2f} steps/s" if speed else ""
            self._progress.update(
                self._task,
                completed=step,
                rate=rate,
                live=live,
            )
            return

        times = self._times(step, total_steps)
        self._say_sometimes(f"{stage}: step {step} of {total_steps}, {live}{times}")

    @hookimpl
    def validated(
        self,
        step: int,
        score: float,
        best: bool,
    ) -> None:
        """Show a validation score, and whether its weights are kept as the best so far."""
        from sentbed.helpers import score_text

        validation = f"validation {score_text(score)}"
        self._score = f", {validation}"
        kept = " (kept)" if best else ""
        self._say(f"step {step}: {validation}{kept}")

    @hookimpl
    def observed(
        self,
        step: int,
        encoder: str,
        evaluation: Evaluation,
    ) -> None:
        """Show the first scores of an evaluation during a stage in one line.

        Scores with another protocol than the first score are left out.
        """
        from sentbed.helpers import score_digits, score_text

        scores = []
        for score in evaluation.scores:
            if score.protocol_id == evaluation.scores[0].protocol_id:
                scores.append(score)

        parts = []
        for score in scores[:SCORES_PER_LINE]:
            digits = score_digits([score.value])
            value = score_text(score.value, digits)
            parts.append(f"{score.task} {score.metric} {value}")

        if len(scores) > SCORES_PER_LINE:
            parts.append(f"and {len(scores) - SCORES_PER_LINE} more")
        self._say(f"step {step}: {encoder}: {', '.join(parts)}")

    @hookimpl
    def stage_finished(
        self,
        stage: str,
        best_score: float | None,
        best_step: int,
    ) -> None:
        """Close the progress bar, and show which step the stage keeps."""
        from sentbed.helpers import score_text

        self._stop()
        if best_score is not None:
            self._say(
                f"stage {stage} keeps step {best_step}, validation {score_text(best_score)}"
            )

    @hookimpl
    def run_finished(self, run: Run, report: Path) -> None:
        """Close the progress bar, and show how many vectors came from the cache."""
        self._stop()
        counts = run.facts.get("cache", {})
        taken = counts.get("taken")
        if taken:
            total = taken + counts["encoded"]
            self._say(f"{taken:,} of {total:,} vectors came from the cache")

    @hookimpl(tryfirst=True)
    def run_failed(self, run: Run) -> None:
        """Close the progress bar, and show where the results so far are, and how to resume the run."""
        self._stop()
        self._say(f"the run ended early; what it had computed is in {run.directory}")
        if (run.directory / STATES).is_dir():
            self._say(f"to go on: sentbed run RECIPE --resume {run.directory}")

    def _open(self) -> None:
        """Open the console at the beginning of a run."""
        from rich.console import Console

        self._console = Console(
            stderr=True,
            highlight=False,
            soft_wrap=True,
            markup=False,
        )
        self._done = {}

    def _say(self, text: str) -> None:
        """Print a line."""
        if self._console is not None:
            self._console.print(printable(text))

    def _times(self, done: int, total: int) -> str:
        """Return the elapsed time and the expected time left as text; empty before anything was done."""
        steps = done - self._start.done
        if steps <= 0:
            return ""

        seconds = time.monotonic() - self._start.time
        seconds_left = seconds / steps * (total - done)
        elapsed = timedelta(seconds=round(seconds))
        left = timedelta(seconds=round(seconds_left))
        return f", {elapsed}, about {left} left"

    def _say_sometimes(self, text: str) -> None:
        """Print a progress line, unless the last line is less than `LINE_EVERY_SECONDS` old."""
        if time.monotonic() - self._last_line > LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            self._say(text)

    def _stop(self) -> None:
        """Close the progress bar, if one is open."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._task = None
            self._part = ""
