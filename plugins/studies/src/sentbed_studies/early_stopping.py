"""Early stopping of cells while a study runs: `[study.stop]`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed.helpers import score_digits
from sentbed_jobs.pool_loop import Say
from sentbed_report.formatting import count, number
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.decisions import (
    Decisions,
    Rule,
    read_decisions,
    write_decisions,
)

from sentbed_studies.deciding_evidence import DecidingEvidence
from sentbed_studies.sequential_test import SequentialTest
from sentbed_studies.shared_work_plan import Task, Work
from sentbed_studies.spending import shares
from sentbed_studies.stop_config import Stop
from sentbed_studies.study import Study


def parts_between_looks(
    study: Study,
    work: Work,
    stop: Stop,
    directory: Path,
    say: Say,
    needless: Callable[[Task], object],
    begun: int = 0,
) -> Iterator[Work]:
    """Yield the work between looks, of the cells that go on; after each part, make the look.

    The caller runs a part before it takes the next one. Looks that were made before are made again: they
    decide as they did, since they depend on nothing but the scores. `needless` is told each run that will not
    be done. `work` is of all cells that are compared; of each, `begun` seeds have been run. Where other cells
    were left out by their scores, or those of others, claims on these count as possible, too.

    Raises:
        RunError: if no run of a look has a score that decides, a run cannot be read, or the disk is full.
    """
    seeds, decide = study.seeds, study.table.decides_by
    rule = rule_of(study, stop)
    earlier = _earlier(directory, rule)
    compared = {task.cell.name for task in work.tasks}
    plans = [(_runs_of_seeds(before), before.looks) for before in earlier]
    reference = study.baseline if stop.worse_than == "baseline" else None
    test = SequentialTest(
        tuple(name for name in study.names if name in compared),
        rule.looks,
        stop.error_rate,
        stop.margin,
        reference,
        among=len(study.names),
        promise=stop.promise,
        shares=shares((_runs_of_seeds(rule), rule.looks), plans),
    )
    evidence = DecidingEvidence(
        directory,
        decide,
        work.tasks,
        prompts_are_sample=study.table.prompt_factor == "random",
    )
    decisions = Decisions(rule, at_work=test.at_work, earlier=earlier)
    done = begun
    left_out: set[Task] = set()
    for number_of_seeds in rule.looks:
        run_seeds, later_seeds = seeds[:number_of_seeds], seeds[number_of_seeds:]
        new_seeds = run_seeds[done:]
        done = number_of_seeds
        at_work = set(test.at_work)
        yield work.of(
            [
                cell
                for cell in study.cells
                if cell.name in at_work and cell.seed in new_seeds
            ]
        )
        facts = evidence.of(test.at_work, run_seeds)
        if not facts.values:
            _require_scores(
                facts.left,
                evidence,
                [t for t in work.tasks if t.cell.seed in run_seeds],
            )
        claims = test.look(facts.values, facts.items, facts.prompts)
        has_ended = not later_seeds or len(test.at_work) < 2
        stopped = set(test.cells) if has_ended else {claim.cell for claim in claims}
        for task in work.tasks:
            if (
                task.cell.name in stopped
                and task.cell.seed in later_seeds
                and task not in left_out
            ):
                left_out.add(task)
                needless(task)
        decisions = attrs.evolve(
            decisions,
            claims=tuple(test.claims),
            looks=(*decisions.looks, number_of_seeds),
            at_work=test.at_work,
            left=facts.left,
            over_items=facts.items is not None,
            ended=has_ended,
        )
        stored = read_decisions(directory)
        if decisions != stored and not _is_behind(decisions, stored):
            write_decisions(directory, decisions)
        digits = score_digits(chain.from_iterable(facts.values.values()))
        for claim in claims:
            say(
                f"{claim.cell}: stopped after {count(claim.seeds, 'seed')}: worse than {claim.than} by "
                f"{number(claim.difference, digits)}, at least {number(claim.at_least, digits)}"
            )
        if has_ended:
            return


def _require_scores(
    left: Mapping[str, str], evidence: DecidingEvidence, tasks: Sequence[Task]
) -> None:
    """Raise `RunError` if all runs of a look have finished, and none has a score that decides."""
    if all(task.is_done(evidence.directory) for task in tasks):
        name, why = next(iter(left.items()))
        raise RunError(
            f"nothing decides between the cells: of {name}, {why}; its scores are of "
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


def _runs_of_seeds(rule: Rule) -> tuple[Hashable, ...]:
    """Return what tells each seed of a rule from those of another.

    Other prompts give another score, and prompts that are a sample give another test of it.
    """
    if not rule.prompts:
        return rule.seeds
    prompts = frozenset(rule.prompts)
    return tuple((seed, prompts, rule.prompt_factor) for seed in rule.seeds)


def needless_runs(
    study: Study, waiting: Sequence[Task], directory: Path
) -> tuple[Task, ...]:
    """Return those of the `waiting` runs that are not needed, by what was decided by the same rule.

    Of a cell whose runs before the decision are not there, as its recipe has changed, none is left out.

    Raises:
        RunError: if the decisions cannot be read.
    """
    if study.table.stop is None:
        return ()
    decisions = read_decisions(directory)
    if decisions is None or decisions.rule != rule_of(study, study.table.stop):
        return ()
    needless: list[Task] = []
    for name in dict.fromkeys(
        (*decisions.at_work, *(claim.cell for claim in decisions.claims))
    ):
        of_cell = [task for task in waiting if task.cell.name == name]
        last = decisions.last_seeds(name)
        if last is not None and all(
            task.cell.seed in study.seeds[last:] for task in of_cell
        ):
            needless += of_cell
    return tuple(needless)


def _is_behind(decisions: Decisions, stored: Decisions | None) -> bool:
    """Whether decisions are the beginning of those that are stored, which stay while looks are made again."""
    looks, claims = decisions.looks, decisions.claims
    if (
        stored is None
        or stored.rule != decisions.rule
        or len(stored.looks) <= len(looks)
    ):
        return False
    return (
        stored.looks[: len(looks)] == looks and stored.claims[: len(claims)] == claims
    )


def score_of(decide: Decide) -> str:
    """Return the score that decides, in words."""
    data = "test" if decide.test_data else "development"
    tasks = ", ".join(decide.tasks) or f"all tasks on {data} data"
    evaluator = f" ({decide.evaluator})" if decide.evaluator else ""
    return f"the mean of {tasks}{evaluator}"


def _earlier(directory: Path, rule: Rule) -> tuple[Rule, ...]:
    """Return the rules by which the study has decided, the first one first; none if that is `rule` alone.

    `rule` keeps its place where the study has come back to it: what was spent under the first one counts.
    """
    decisions = read_decisions(directory)
    if decisions is None:
        return ()
    rules = tuple(dict.fromkeys((*decisions.earlier, decisions.rule)))
    return () if rules == (rule,) else rules
