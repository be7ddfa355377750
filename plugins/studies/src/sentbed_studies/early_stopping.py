"""Early stopping of cells while a study runs: `[study.stop]`.

A look is a comparison of the cells that are still run, by their deciding scores under the first n seeds of the
study. If a look shows that a cell is worse than another (a claim), the cell gets no further seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed.helpers import score_digits
from sentbed_jobs.pool_loop import Say
from sentbed_report.formatting import count, number
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.decisions import (
    Claim,
    Decisions,
    Rule,
    read_decisions,
    write_decisions,
)

from sentbed_studies.deciding_evidence import DecidingEvidence
from sentbed_studies.sequential_test import SequentialTest
from sentbed_studies.shared_work_plan import Task, Work
from sentbed_studies.spending import Plan, shares
from sentbed_studies.stop_config import Stop
from sentbed_studies.study import Study


def parts_between_looks(
    study: Study,
    work: Work,
    stop: Stop,
    directory: Path,
    say: Say,
    needless: Callable[[Task], object],
    seeds_done: int = 0,
) -> Iterator[Work]:
    """Yield the runs that each look needs, and make the look when the caller asks for the next runs.

    The caller must have done the yielded runs before it asks for more. After an interruption, looks are made
    again with the same result, since they depend on the scores alone.

    Args:
        study: The study.
        work: Runs of all cells that are compared. If a sampler has chosen these cells by their scores, the error
            rate is corrected for the other cells of the study, too.
        stop: The study's `[study.stop]`.
        directory: The study's directory.
        say: Gets a line for each cell that is stopped.
        needless: Called with each run that will not be done.
        seeds_done: Number of seeds with which all cells of `work` have been run before.

    Raises:
        RunError: if no cell of a look has a deciding score, if a run cannot be read, or if the disk is full.
    """
    seeds = study.seeds
    rule = rule_of(study, stop)
    earlier = _rules_so_far(directory, rule)
    test = _sequential_test(study, work, stop, rule, earlier)
    evidence = DecidingEvidence(
        directory,
        study.table.decides_by,
        work.tasks,
        prompts_are_sample=study.table.prompt_factor == "random",
    )
    decisions = Decisions(rule, at_work=test.at_work, earlier=earlier)
    left_out: set[Task] = set()
    for number_of_seeds in rule.looks:
        run_seeds, later_seeds = seeds[:number_of_seeds], seeds[number_of_seeds:]
        new_seeds = run_seeds[seeds_done:]
        seeds_done = number_of_seeds
        yield work.of(study.cells_of(set(test.at_work), new_seeds))

        scores = evidence.of(test.at_work, run_seeds)
        if not scores.values:
            tasks = [task for task in work.tasks if task.cell.seed in run_seeds]
            _require_scores(scores.left_out, evidence, tasks)
        claims = test.look(scores.values, scores.items, scores.prompts)
        has_ended = not later_seeds or len(test.at_work) < 2

        stopped = {claim.cell for claim in claims}
        if has_ended:
            stopped = set(test.cells)
        for task in work.tasks:
            is_needless = task.cell.name in stopped and task.cell.seed in later_seeds
            if is_needless and task not in left_out:
                left_out.add(task)
                needless(task)

        decisions = attrs.evolve(
            decisions,
            claims=tuple(test.claims),
            looks=(*decisions.looks, number_of_seeds),
            at_work=test.at_work,
            left=scores.left_out,
            over_items=scores.items is not None,
            ended=has_ended,
        )
        _store(directory, decisions)

        digits = score_digits(chain.from_iterable(scores.values.values()))
        for claim in claims:
            say(_claim_in_words(claim, digits))
        if has_ended:
            return


def _store(directory: Path, decisions: Decisions) -> None:
    """Write the decisions, unless another process has already stored the same ones with further looks."""
    stored = read_decisions(directory)
    if decisions != stored and not _is_beginning(decisions, stored):
        write_decisions(directory, decisions)


def _claim_in_words(claim: Claim, digits: int) -> str:
    """Return which cell is stopped and why, with `digits` decimals."""
    seeds = count(claim.seeds, "seed")
    difference = number(claim.difference, digits)
    at_least = number(claim.at_least, digits)
    return (
        f"{claim.cell}: stopped after {seeds}: worse than {claim.than} by {difference}, "
        f"at least {at_least}"
    )


def _sequential_test(
    study: Study,
    work: Work,
    stop: Stop,
    rule: Rule,
    earlier: Sequence[Rule],
) -> SequentialTest:
    """Return the test of the cells in `work`, before the first look."""
    baseline = study.baseline if stop.worse_than == "baseline" else None
    compared = {task.cell.name for task in work.tasks}
    return SequentialTest(
        tuple(name for name in study.names if name in compared),
        rule.looks,
        stop.error_rate,
        stop.margin,
        baseline,
        selected_from=len(study.names),
        promise=stop.promise,
        shares=shares(_plan_of(rule), list(map(_plan_of, earlier))),
    )


def _require_scores(
    left_out: Mapping[str, str],
    evidence: DecidingEvidence,
    tasks: Sequence[Task],
) -> None:
    """Raise `RunError` after a look without scores, if its runs have finished: later looks would have none.

    `tasks` are the runs of the look. `left_out` maps each cell to the reason why it cannot be compared.
    """
    if not all(task.is_done(evidence.directory) for task in tasks):
        return
    name, reason = next(iter(left_out.items()))
    raise RunError(
        f"nothing decides between the cells: of {name}, {reason}; its scores are of "
        f"{evidence.tasks_of(tasks[0])}; name some in `[study.decide]`, or take `stop` out; what has "
        "finished stays"
    )


def rule_of(study: Study, stop: Stop) -> Rule:
    """Return the rule by which a study stops cells."""
    factor = study.table.prompt_factor if study.prompts else None
    return Rule(
        stop.worse_than,
        stop.margin,
        stop.error_rate,
        tuple(range(stop.first_look, len(study.seeds) + 1)),
        study.names,
        score_of(study.table.decides_by),
        study.seeds,
        stop.promise,
        study.prompts,
        factor,
    )


def _plan_of(rule: Rule) -> Plan:
    """Return the plan of looks by a rule.

    In a study with prompts, each seed stands together with the prompts and with their kind, random or fixed. So
    looks after the same seeds with other prompts are other looks.
    """
    if not rule.prompts:
        return rule.seeds, rule.looks
    prompts = frozenset(rule.prompts)
    seeds = [(seed, prompts, rule.prompt_factor) for seed in rule.seeds]
    return tuple(seeds), rule.looks


def needless_runs(
    study: Study,
    waiting: Sequence[Task],
    directory: Path,
) -> tuple[Task, ...]:
    """Return those of the `waiting` runs that earlier decisions by the same rule have left out.

    If the recipe has changed, a run on which the decision on a cell was based may be waiting again. Then no
    run of this cell is left out.

    Raises:
        RunError: if the decisions cannot be read.
    """
    if study.table.stop is None:
        return ()

    decisions = read_decisions(directory)
    if decisions is None or decisions.rule != rule_of(study, study.table.stop):
        return ()

    names = [*decisions.at_work, *(claim.cell for claim in decisions.claims)]
    needless: list[Task] = []
    for name in dict.fromkeys(names):
        last = decisions.last_seeds(name)
        if last is None:
            continue
        later_seeds = study.seeds[last:]
        of_cell = [task for task in waiting if task.cell.name == name]
        if all(task.cell.seed in later_seeds for task in of_cell):
            needless += of_cell
    return tuple(needless)


def _is_beginning(decisions: Decisions, stored: Decisions | None) -> bool:
    """Whether `stored` has the looks and claims of `decisions` and further looks, so that it must be kept."""
    if stored is None or stored.rule != decisions.rule:
        return False
    looks, claims = decisions.looks, decisions.claims
    if len(stored.looks) <= len(looks) or stored.looks[: len(looks)] != looks:
        return False
    return stored.claims[: len(claims)] == claims


def score_of(decide: Decide) -> str:
    """Return in words which score decides, such as `the mean of STSB-dev (sts)`."""
    data = "test" if decide.test_data else "development"
    tasks = ", ".join(decide.tasks) or f"all tasks on {data} data"
    evaluator = f" ({decide.evaluator})" if decide.evaluator else ""
    return f"the mean of {tasks}{evaluator}"


def _rules_so_far(directory: Path, rule: Rule) -> tuple[Rule, ...]:
    """Return all rules by which the study has decided, in order of first use; empty if `rule` is the only one.

    The order determines each rule's share of the error rate. A rule to which the study has returned has the
    place of its first use.
    """
    decisions = read_decisions(directory)
    if decisions is None:
        return ()
    rules = tuple(dict.fromkeys((*decisions.earlier, decisions.rule)))
    return () if rules == (rule,) else rules
