"""Command `study`: plan, run and inspect ablation studies."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from sentbed.helpers import Stop
from sentbed.tools import FAILED, set_option

if TYPE_CHECKING:
    from sentbed.tools import Plugins

    from sentbed_studies.runner import StudyResult
    from sentbed_studies.study_plan import StudyPlan


class _DefaultsToRun(click.Group):
    """Click group in which `study RECIPE` means `study run RECIPE`."""

    def resolve_command(
        self,
        ctx: click.Context,
        args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["run", *args]
        return super().resolve_command(ctx, args)


only_option = click.option(
    "--only",
    multiple=True,
    metavar="AXIS=LABEL",
    help="Only cells with this label.",
)
override_option = set_option(
    "Override a value in every cell; a value that an axis varies cannot be overridden."
)
out_option = click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="The directory; studies/NAME by default.",
)
keep_going_option = click.option(
    "--keep-going", is_flag=True, help="Run the other cells if one fails."
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1),
    help="Number of cells to run at a time; by default as many as cores allow, and one per 4 GiB of memory.",
)


@click.group(cls=_DefaultsToRun, context_settings={"ignore_unknown_options": True})
def study() -> None:
    """Run the cells of a recipe with `[study]`, and tabulate them: `sentbed study RECIPE`.

    The options of `sentbed study RECIPE` are those of `sentbed study run`.
    """
    # SIGTERM ends a command as Ctrl-C does. A run in this process handles it first, and saves a training state.
    click.get_current_context().with_resource(Stop().listening())


@study.command()
@click.argument("recipe", type=click.Path(dir_okay=False))
@override_option
@out_option
@click.option(
    "--dry-run", is_flag=True, help="Check every cell and print the plan; run nothing."
)
@only_option
@keep_going_option
@click.option(
    "--no-share",
    is_flag=True,
    help="Share no stages and forward passes between cells.",
)
@click.option(
    "--executor",
    "where",
    default="local",
    show_default=True,
    help="Executor that runs the cells: `local`, `ray`, or another of a plugin.",
)
@workers_option
@click.option(
    "--gpus",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Number of GPUs per worker.",
)
@click.option("--address", help="Address of a Ray cluster.")
def run(
    recipe: str,
    overrides: tuple[str, ...],
    out: str | None,
    dry_run: bool,
    only: tuple[str, ...],
    keep_going: bool,
    no_share: bool,
    where: str,
    workers: int | None,
    gpus: int,
    address: str | None,
) -> None:
    """Run the study in RECIPE, or continue it. The last line printed is the path of its report.

    Finished cells are not run again, and several processes may run the same study.
    """
    from sentbed.tools import load_plugins

    from sentbed_studies.study import (
        read_study,
        require_cells_of_labels,
        require_runtimes,
    )
    from sentbed_studies.study_plan import plan_study
    from sentbed_studies.study_reports import write_reports

    plugins = load_plugins()
    selection = entries(only)
    on_this_machine = where == "local"
    expanded = read_study(recipe, overrides, plugins, only=selection or None)
    cells_to_run = expanded
    if selection:
        cells_to_run = expanded.only(selection)
    else:
        require_cells_of_labels(expanded)
    if on_this_machine:
        require_runtimes(cells_to_run)

    plan = plan_study(
        expanded,
        Path(out or expanded.default_directory),
        plugins,
        only=selection,
        share=not no_share,
        workers=workers,
        choose_workers=on_this_machine and not gpus,
    )
    for line in plan.lines():
        click.echo(line, err=not dry_run)

    if dry_run:
        return

    executor_options: dict[str, Any] = {}
    if gpus:
        executor_options["gpus"] = gpus
    if address:
        executor_options["address"] = address
    result = run_plan(
        plan,
        plugins,
        where,
        executor_options,
        only=selection,
        keep_going=keep_going,
        share=not no_share,
    )
    for outcome in result.failed:
        click.echo(f"{outcome.task} failed: {outcome.error}", err=True)

    if not result.worked:
        click.echo("nothing was left to run", err=True)
    click.echo(write_reports(plan.directory, _say))
    if result.failed:
        sys.exit(FAILED)


def _say(sentence: str) -> None:
    """Print a line on standard error."""
    click.echo(sentence, err=True)


def run_plan(
    plan: StudyPlan,
    plugins: Plugins,
    executor: str = "local",
    executor_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> StudyResult:
    """Run a planned study and show its progress.

    `executor_options` are options of the executor besides the number of workers. `options` are further arguments
    of `run_study`.
    """
    from sentbed.protocols import Executor
    from sentbed.tools import component_of

    from sentbed_studies.progress import watching
    from sentbed_studies.runner import run_study

    table = {"use": executor, "workers": plan.workers, **(executor_options or {})}
    chosen_executor = component_of(Executor, table, plugins, "executor")
    with (
        reported(plan.directory),
        watching(plan.directory) as say,
    ):
        return run_study(
            plan.study,
            plan.directory,
            plugins,
            executor=chosen_executor,
            keys=plan.keys,
            say=say,
            workers=plan.workers,
            **options,
        )


@contextmanager
def reported(directory: Path) -> Iterator[None]:
    """Write the report of the finished cells if the study fails or is interrupted; then raise the error again.

    Notes on the error tell where the report is, and how to continue.
    """
    from sentbed_studies.study_reports import write_reports

    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        try:
            error.add_note(f"what has finished: {write_reports(directory)}")
        except Exception as second:  # noqa: BLE001 - such as a full disk, which must not hide the first error
            error.add_note(f"nor could the report be written: {second}")
        if isinstance(error, KeyboardInterrupt):
            # The interrupted run has added a note that says how to resume this run, not the study.
            error.add_note("run the same command again to go on with the study")
        raise


@study.command()
@click.argument("directory", type=click.Path(file_okay=False))
def status(directory: str) -> None:
    """Show the progress of the study in DIRECTORY, also while the study runs."""
    from sentbed_report.study.read_study_directory import read_data

    from sentbed_studies.progress import status_lines

    for line in status_lines(read_data(directory)):
        click.echo(line)


@study.command()
@click.argument("directory", type=click.Path(file_okay=False))
def report(directory: str) -> None:
    """Write the tables and reports of the study in DIRECTORY anew, with all runs that have finished."""
    from sentbed_studies.study_reports import write_reports

    click.echo(write_reports(Path(directory), _say))


@study.command()
@click.argument("directory", type=click.Path(file_okay=False))
@click.option(
    "--every",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Seconds between two reports.",
)
def watch(directory: str, every: int) -> None:
    """Open the report of the study in DIRECTORY in a browser, and write it anew until all runs have ended.

    The page reloads itself until then. Ctrl-C ends the watching; the study goes on.
    """
    import time
    import webbrowser

    from sentbed_report.study.read_study_directory import read_data

    from sentbed_studies.study_reports import write_reports

    is_shown = False
    while True:
        data = read_data(directory)
        statuses = {run.status for run in data.runs_and_fresh_runs}
        # Between two runs, none may be running.
        has_ended = statuses <= {"finished", "failed"}
        report = write_reports(Path(directory), data=data, reloads=not has_ended)
        if not is_shown:
            click.echo(report)
            webbrowser.open(report.resolve().as_uri())
            is_shown = True
        if has_ended:
            return
        try:
            time.sleep(every)
        except KeyboardInterrupt:
            click.echo("Stopped watching; the study continues.")
            return


@study.command()
@click.argument("directory", type=click.Path(file_okay=False))
@click.argument("names", nargs=-1, metavar="[NAME ...]")
@click.option(
    "--list",
    "only_list",
    is_flag=True,
    help="Print the names and titles of the figures.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="The directory; DIRECTORY/figures by default.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["pdf", "svg", "png"]),
    default="pdf",
    show_default=True,
)
@click.option(
    "--task", default="", help="Draw this task, instead of the average or the last one."
)
@click.option(
    "--width",
    type=click.FloatRange(0.5, 50),
    default=3.3,
    show_default=True,
    help="Inches.",
)
def plot(
    directory: str,
    names: tuple[str, ...],
    only_list: bool,
    out: str | None,
    form: str,
    task: str,
    width: float,
) -> None:
    """Write figures of the study in DIRECTORY as files for papers: the figures called NAME, or all.

    The kinds are `scores`, `effects`, `numbers`, `cost`, `geometry`, `trajectory` and `learning`; the second
    figure of a kind is called `cost-2`, for example. The paths of the files are printed.
    """
    from sentbed.errors import RunError
    from sentbed_report.figures.figure_files import write_figure
    from sentbed_report.figures.study_figures import (
        NOTHING,
        figure_named,
        study_figures,
    )

    from sentbed_studies.study_results import load_study

    loaded = load_study(directory)
    figures = study_figures(loaded.data, loaded.tables, task)
    if not figures and not names:
        raise RunError(f"the study in `{directory}` has no figures; {NOTHING}")

    if only_list:
        longest = max(map(len, figures), default=0)
        for name, figure in figures.items():
            click.echo(f"{name:{longest}}  {figure.title}")
        return

    chosen = {}
    for name in names or figures:
        chosen[name] = figure_named(figures, name)

    for name, plot in chosen.items():
        path = Path(out or Path(directory) / "figures") / f"{name}.{form}"
        write_figure(plot.figure(width), path, plot.title)
        click.echo(path)


@study.command()
@click.argument(
    "directories",
    type=click.Path(file_okay=False),
    nargs=-1,
    metavar="[DIRECTORY]...",
)
@click.option(
    "--seed-std",
    type=click.FloatRange(0),
    help="Standard deviation of the difference over seeds.",
)
@click.option(
    "--item-std",
    type=click.FloatRange(0),
    help="Standard error of the difference due to the test items.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    multiple=True,
    help="Number of seeds; may be repeated.",
)
@click.option(
    "--difference",
    type=float,
    multiple=True,
    help="Difference to find; may be repeated.",
)
@click.option(
    "--cells",
    type=click.IntRange(1),
    help="Number of cells compared with the baseline, by default 1; with `--seed-std` and `--item-std` only.",
)
def power(
    directories: tuple[str, ...],
    seed_std: float | None,
    item_std: float | None,
    seeds: tuple[int, ...],
    difference: tuple[float, ...],
    cells: int | None,
) -> None:
    """Show the smallest difference that a number of seeds can show, and how many seeds a difference needs.

    The standard deviations are those of the finished runs of the study in DIRECTORY, or of several run
    directories. Instead, they can be set with `--seed-std` and `--item-std`.
    """
    from sentbed.errors import RunError
    from sentbed_report.statistics.power import Spread
    from sentbed_report.study.build_summary_tables import summarise
    from sentbed_report.study.runs_as_study import runs_as_study
    from sentbed_report.study_page.power_section import (
        NOTES,
        Comparisons,
        observed_comparisons,
        power_table,
    )
    from sentbed_report.tables.terminal import to_text

    if bool(directories) == (seed_std is not None or item_std is not None):
        raise click.UsageError(
            "give either DIRECTORY, or `--seed-std` and `--item-std`"
        )

    if directories and cells is not None:
        raise click.UsageError(
            "`--cells` is for `--seed-std` and `--item-std`; those in DIRECTORY are counted, so leave it out"
        )

    if directories:
        data = runs_as_study([*map(Path, directories)])
        comparisons = observed_comparisons(summarise(data))
        if not comparisons:
            raise RunError(
                f"of {data.name}, no cell has been compared with a baseline under two seeds or more, so that it "
                "is not known how much seeds differ; run more seeds, or give the spread with `--seed-std`"
            )
    else:
        spread = Spread(seed_std or 0.0, item_std or 0.0)
        comparisons = [Comparisons.planned(spread, cells or 1)]
        seeds = seeds or (2, 3, 5, 10)
    for each in comparisons:
        click.echo(to_text(power_table(each, seeds, difference)), nl=False)
    click.echo("\n".join(NOTES))


def entries(only: Sequence[str]) -> list[dict[str, tuple[str, ...]]]:
    """Return the selection of cells that `AXIS=LABEL` options make; empty without options.

    It has one entry, in which several labels of the same axis are alternatives.
    """
    entry: dict[str, tuple[str, ...]] = {}
    for text in only:
        axis, equals, label = text.partition("=")
        if not equals:
            raise click.UsageError(f"`--only` takes AXIS=LABEL, found {text!r}")
        entry[axis] = (*entry.get(axis, ()), label)
    return [entry] if entry else []
