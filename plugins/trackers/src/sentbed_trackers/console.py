"""Tracker that shows a run on the terminal: progress bars with the time left, losses and scores."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Evaluation, Run, StepResult
from sentbed.tools import STATES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

SCORES_PER_LINE = 4
"""Maximum number of scores that are shown of an evaluation during a stage."""

LINE_EVERY_SECONDS = 15.0
"""Seconds between progress lines if the output is not a terminal."""


class ConsoleTracker:
    """Shows a run on standard error: with progress bars on a terminal, otherwise as plain lines."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        """Progress of a stage, or of a part of an evaluation."""
        self._name = ""
        """Name of what progresses."""
        self._score = ""
        """Text of the last validation score."""
        self._last_line = 0.0
        """Time of the last progress line."""
        self._steps_before = 0
        """Number of steps that the stage in which the run was resumed had taken before."""

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Show the name of the run and its directory."""
        self._say(f"{run.name} writes to {run.directory}")

    @hookimpl
    def run_resumed(self, run: Run) -> None:
        """Show the name of the resumed run, the place from which it continues, and its directory."""
        position = run.facts["resumed"][-1]
        self._steps_before = position["step"]
        where = "after its last stage"
        if position["stage"] < len(run.recipe.stage):
            stage = run.recipe.stage[position["stage"]].name
            where = f"at stage {stage} step {position['step']}"
        self._say(f"{run.name} resumed {where}, writes to {run.directory}")

    @hookimpl
    def warned(self, message: str) -> None:
        """Show a warning."""
        self._say(f"warning: {message}")

    @hookimpl
    def evaluation_started(self, evaluator: str, encoder: str) -> None:
        """Show which encoder is evaluated by which evaluator."""
        self._say(f"evaluating {encoder} with {evaluator}")

    @hookimpl
    def evaluation_progressed(
        self,
        evaluator: str,
        what: str,
        done: int,
        total: int,
    ) -> None:
        """Show the progress of a part of an evaluation, such as the encoding of texts."""
        name = f"{evaluator}: {what}"
        if name != self._name:
            self._open_bar(name, total, done)
        elif self._progress is not None:
            task = self._progress.tasks[0]
            # Each list of texts has its own progress.
            if done < task.completed:
                self._progress.reset(task.id)
        self._advance(done, total)

    @hookimpl
    def scores_ready(self, evaluation: Evaluation) -> None:
        """Show the scores of an evaluation as a table."""
        from rich.table import Table
        from sentbed.helpers import score_text

        self._close_bar()
        table = Table(box=None, padding=(0, 2, 0, 2))
        for name in ("task", "metric", "protocol"):
            table.add_column(name)
        table.add_column("value", justify="right")

        skipped: dict[str, None] = {}
        for score in evaluation.scores:
            value = score_text(score.value)
            table.add_row(score.task, score.metric, score.protocol_name, value)
            skipped |= dict.fromkeys(score.skipped)
        self._console.print(table)

        if skipped:
            self._say(
                f"left out, since their data is missing (`skip_missing`): {', '.join(skipped)}"
            )

    @hookimpl
    def stage_started(self, stage: str, total_steps: int) -> None:
        """Open the progress bar of a stage."""
        self._score = ""
        self._say(f"training stage {stage}: {total_steps} steps")
        self._open_bar(stage, total_steps, self._steps_before)
        self._steps_before = 0

    @hookimpl
    def step_finished(
        self,
        step: int,
        total_steps: int,
        result: StepResult,
    ) -> None:
        """Advance the progress bar, and show the loss and the last validation score."""
        live = f"loss {result.loss:.4f}"
        if self._score:
            live += f", {self._score}"
        self._advance(step, total_steps, live)

    @hookimpl
    def validated(
        self,
        step: int,
        score: float,
        best: bool,
    ) -> None:
        """Show a validation score, and whether its weights are kept as the best so far."""
        from sentbed.helpers import score_text

        self._score = f"validation {score_text(score)}"
        kept = " (kept)" if best else ""
        self._say(f"step {step}: {self._score}{kept}")

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

        parts = []
        for score in evaluation.scores:
            if score.protocol_id == evaluation.scores[0].protocol_id:
                value = score_text(score.value, score_digits([score.value]))
                parts.append(f"{score.task} {score.metric} {value}")
        self._say(f"step {step}: {encoder}: {', '.join(parts[:SCORES_PER_LINE])}")

    @hookimpl
    def stage_finished(
        self,
        stage: str,
        best_score: float | None,
        best_step: int,
    ) -> None:
        """Close the progress bar, and show which step the stage keeps."""
        from sentbed.helpers import score_text

        self._close_bar()
        if best_score is not None:
            self._say(
                f"stage {stage} keeps step {best_step}, validation {score_text(best_score)}"
            )

    @hookimpl(tryfirst=True)
    def run_failed(self, run: Run) -> None:
        """Close the progress bar, and show where the results so far are, and how to resume the run."""
        self._close_bar()
        self._say(f"the run ended early; what it had computed is in {run.directory}")
        if (run.directory / STATES).is_dir():
            self._say(f"to go on: sentbed run RECIPE --resume {run.directory}")

    @cached_property
    def _console(self) -> Console:
        """The console, which is opened when it is first needed."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

    def _say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text)

    def _open_bar(
        self,
        name: str,
        total: int,
        done: int,
    ) -> None:
        """Open a progress bar in the place of another. Without a terminal, it only measures time."""
        from rich import progress

        self._close_bar()
        self._name = name
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[live]}", markup=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._progress.add_task(name, total=total, completed=done, live="")
        self._progress.start()

    def _advance(
        self,
        done: int,
        total: int,
        live: str = "",
    ) -> None:
        """Advance the progress bar, or print a line if there was none for some time. `live` stands behind it."""
        if self._progress is None:
            return
        task = self._progress.tasks[0]
        self._progress.update(task.id, completed=done, total=total, live=live)

        now = time.monotonic()
        if self._progress.disable and now - self._last_line > LINE_EVERY_SECONDS:
            self._last_line = now
            line = f"{self._name}: {done} of {total}"
            if live:
                line += f", {live}"
            if task.time_remaining is not None:
                line += f", about {timedelta(seconds=round(task.time_remaining))} left"
            self._say(line)

    def _close_bar(self) -> None:
        """Close the progress bar, if one is open."""
        if self._progress is not None:
            self._progress.stop()
        self._progress = None
        self._name = ""
