"""Early stopping of cells while a study runs: `[study.stop]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed.helpers import score_digits
from sentbed_report.formatting import count, number
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.decisions import Claim, Decisions, Rule, read_decisions, write_decisions

from sentbed_studies.deciding_evidence import DecidingEvidence
from sentbed_studies.sequential_test import SequentialTest, no_items
from sentbed_studies.shared_work_plan import Task, Work
from sentbed_studies.spending import shares
from sentbed_studies.stop_config import Stop
from sentbed_studies.study import Study


def parts_between_looks(
    study: Study,
    work: Work,
    stop: Stop,
    directory: Path,
    say: Callable[[str], object],
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
    looks = rule.looks
    earlier = _earlier(directory, rule)
    compared = {task.cell.name for task in work.tasks}
    test = SequentialTest(
        tuple(name for name in study.names if name in compared),
        looks,
        stop.error_rate,
        stop.margin,
        study.baseline if stop.worse_than == "baseline" else None,
        among=len(study.names),
        promise=stop.promise,
        shares=shares((rule.seeds, rule.looks), [(one.seeds, one.looks) for one in earlier]),
    )
    evidence = DecidingEvidence(directory, decide, work.tasks)
    made = Decisions(rule, at_work=test.at_work, earlier=earlier)
    done = begun
    left_out: dict[Task, None] = {}
    for look in looks:
        cells = [cell for cell in study.cells if cell.name in test.at_work]
        yield work.of([cell for cell in cells if cell.seed in seeds[done:look]])
        done = look
        known = evidence.of(test.at_work, seeds[:look])
        if not known.values:
            _require_scores(known.left, evidence, [t for t in work.tasks if t.cell.seed in seeds[:look]])
        claims = test.look(known.values, known.items)
        ended = look == looks[-1] or len(test.at_work) < 2
        stopped = set(test.cells if ended else (claim.cell for claim in claims))
        for task in work.tasks:
            if task.cell.name in stopped and task.cell.seed in seeds[look:] and task not in left_out:
                left_out[task] = None
                needless(task)
        made = attrs.evolve(
            made,
            claims=tuple(test.claims),
            looks=(*made.looks, look),
            at_work=test.at_work,
            left=known.left,
            over_items=known.items is not no_items,
            ended=ended,
        )
        if not _is_behind(made, read_decisions(directory)):
            write_decisions(directory, made)
        digits = score_digits(value for of_cell in known.values.values() for value in of_cell)
        for claim in claims:
            say(_said(claim, digits))
        if ended:
            return


def _require_scores(left: Mapping[str, str], evidence: DecidingEvidence, tasks: Sequence[Task]) -> None:
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
    looks = tuple(range(stop.first_look, len(study.seeds) + 1))
    score = score_of(study.table.decides_by)
    return Rule(
        stop.worse_than,
        stop.margin,
        stop.error_rate,
        looks,
        study.names,
        score,
        study.seeds,
        stop.promise,
    )


def needless_runs(study: Study, work: Work, directory: Path) -> tuple[Task, ...]:
    """Return the runs that the study in `directory` will not do, by what it has decided by the same rule.

    Of a cell whose runs before the decision are not there, as its recipe has changed, none is left out.

    Raises:
        RunError: if the decisions cannot be read.
    """
    if study.table.stop is None:
        return ()
    made = read_decisions(directory)
    if made is None or made.rule != rule_of(study, study.table.stop):
        return ()
    found: list[Task] = []
    for name in dict.fromkeys((*made.at_work, *(claim.cell for claim in made.claims))):
        tasks = [task for task in work.tasks if task.cell.name == name]
        waiting = [task for task in tasks if not task.is_done(directory)]
        last = made.last_seeds(name)
        if last is not None and all(task.cell.seed in study.seeds[last:] for task in waiting):
            found += waiting
    return tuple(found)


def _is_behind(made: Decisions, held: Decisions | None) -> bool:
    """Whether decisions are the beginning of those that are held, which stay while looks are made again."""
    if held is None or held.rule != made.rule or len(held.looks) <= len(made.looks):
        return False
    return held.looks[: len(made.looks)] == made.looks and held.claims[: len(made.claims)] == made.claims


def score_of(decide: Decide) -> str:
    """Return the score that decides, in words."""
    data = "test" if decide.test_data else "development"
    tasks = ", ".join(decide.tasks) or f"all tasks on {data} data"
    return f"the mean of {tasks}" + (f" ({decide.evaluator})" if decide.evaluator else "")


def _earlier(directory: Path, rule: Rule) -> tuple[Rule, ...]:
    """Return the rules by which the study has decided, the first one first; none if that is `rule` alone.

    `rule` keeps its place where the study has come back to it: what was spent under the first one counts.
    """
    decisions = read_decisions(directory)
    if decisions is None:
        return ()
    rules = tuple(dict.fromkeys((*decisions.earlier, decisions.rule)))
    return () if rules == (rule,) else rules


def _said(claim: Claim, digits: int) -> str:
    return (
        f"{claim.cell}: stopped after {count(claim.seeds, 'seed')}: worse than {claim.than} by "
        f"{number(claim.difference, digits)}, at least {number(claim.at_least, digits)}"
    )
