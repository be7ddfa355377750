"""Section on the decisions of a study with `[study.stop]`: which cells were stopped, and by which rule."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from sentbed.helpers import score_digits

from sentbed_report.formatting import count, duration
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.decisions import Decisions, Rule
from sentbed_report.study.study_data import CellRun, StudyData
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table


def decisions_section(data: StudyData) -> Section | None:
    """Return the section; None if the study does not stop cells, or has not tested any yet."""
    decisions = data.decisions
    if decisions is None or not decisions.looks:
        return None

    tables = []
    if decisions.claims:
        tables.append(_table(decisions))
    line = f"{count(len(decisions.claims), 'cell')} stopped"
    return Section("Decisions", line, decided(data), tables, [*_notes(decisions)])


def _table(decisions: Decisions) -> Table:
    numbers = []
    for claim in decisions.claims:
        numbers += [claim.difference, claim.at_least]
    digits = score_digits(numbers)
    columns = (
        "worse than",
        Column("seeds", form="count"),
        Column("by", digits=digits),
        Column("at least", digits=digits),
        Column("p", form="p-value"),
    )
    # The columns are the first fields of a claim.
    return table_of("Stopped", ["cell"], columns, map(attrs.astuple, decisions.claims))


def outcome(decisions: Decisions) -> str:
    """Return a sentence on the outcome so far: the best cell, or the cells that may still be the best."""
    if decisions.rule.worse_than == "best" and decisions.winner is not None:
        return (
            f"The best cell is {decisions.winner}: all others were shown to be worse."
        )

    other = "the baseline"
    if decisions.rule.worse_than == "best":
        other = "another cell"
    if not decisions.ended:
        other += " so far"
    return f"Not shown to be worse than {other}: {'; '.join(decisions.at_work)}."


def saved(data: StudyData) -> tuple[str, ...]:
    """Return a sentence on the time that skipped runs would have taken; an empty tuple if none was skipped.

    Skipped runs are those that stopping made needless. The time of stages that several runs share is not
    counted.
    """
    decisions = data.decisions
    if decisions is None or not data.needless:
        return ()

    total = 0.0
    for cell in data.cells:
        times = []
        for run in cell.runs:
            seconds = _seconds_without_shared_stages(run)
            if seconds is not None:
                times.append(seconds)
        if times and (decisions.ended or cell.name not in decisions.at_work):
            skipped_seeds = max(decisions.rule.looks[-1] - len(cell.seeds), 0)
            runs_per_seed = max(len(data.prompts), 1)
            total += skipped_seeds * runs_per_seed * sum(times) / len(times)
    return (
        f"The {count(data.needless, 'run')} that stopping made needless would have taken about "
        f"{duration(total)} more, if they took as long as the other runs of their cells.",
    )


def _seconds_without_shared_stages(run: CellRun) -> float | None:
    """Return a run's time in seconds, without shared stages if their time is known."""
    whole = run.record.get("seconds")
    if (
        run.seconds is None
        or whole is None
        or run.cost is None
        or run.cost.own.seconds is None
    ):
        return run.seconds
    return run.seconds - float(whole) + run.cost.own.seconds


def decided(data: StudyData) -> tuple[str, ...]:
    """Return sentences on the decisions and on the number of skipped runs; none before the first look (test)."""
    decisions = data.decisions
    if decisions is None or not decisions.looks:
        return ()
    if not data.needless:
        return (outcome(decisions),)

    planned = data.total + data.needless
    verb = "were" if decisions.ended else "are"
    share = f"{data.needless / planned:.0%}"
    return (
        outcome(decisions),
        f"{count(data.needless, 'run')} of {planned:,} ({share}) {verb} not needed.",
    )


def _notes(decisions: Decisions) -> Iterator[str]:
    yield rule_sentence(decisions.rule)
    if decisions.claims:
        yield (
            "The score of a stopped cell is a little too low, since the cell was stopped when it looked bad. "
            "The bound in the column “at least” holds nevertheless. p: multiplied by the number of all looks "
            "and claims that were possible."
        )
    if not decisions.over_items:
        yield "Tests are over seeds alone, since a deciding score has no items: other items may decide otherwise."
    for cell, reason in decisions.left.items():
        yield f"Not compared at the last look: {cell} ({reason})."
    if decisions.earlier:
        yield from _changes(decisions)


def _changes(decisions: Decisions) -> Iterator[str]:
    """Yield sentences on changes of the rule while the study ran, and on their effect on the error rate."""
    rule = decisions.rule
    other_rules = 0
    seeds = set()
    prompts = set()
    prompt_factors = set()
    for earlier in decisions.earlier:
        if _without_seeds_and_prompts(earlier) != _without_seeds_and_prompts(rule):
            other_rules += 1
        seeds.add(earlier.seeds)
        # The order of the prompts does not matter.
        prompts.add(frozenset(earlier.prompts))
        if earlier.prompts:
            prompt_factors.add(earlier.prompt_factor)
    seeds.discard(rule.seeds)
    prompts.discard(frozenset(rule.prompts))
    prompt_factors.discard(rule.prompt_factor)

    if other_rules:
        yield (
            f"The rule or the cells were changed while the study ran ({count(other_rules, 'other rule')} "
            "before); the error rate holds for one rule only."
        )
    if seeds:
        listed = "; ".join(", ".join(map(str, of_rule)) for of_rule in sorted(seeds))
        yield (
            f"The seeds were changed while the study ran (before: {listed}). Looks that were not planned at "
            "first spend a part of the error rate that was reserved for them, so that the error rate holds."
        )
    if prompts:
        yield (
            "The prompts were changed while the study ran. Each look at other prompts was not planned, and "
            "spends a part of the error rate that was reserved for such looks."
        )
    if rule.prompts and prompt_factors:
        yield (
            f"The `prompt_factor` was changed while the study ran, to `{rule.prompt_factor}`. Each look under "
            "another `prompt_factor` than the first was not planned, and spends a part of the error rate that "
            "was reserved for such looks."
        )


def _without_seeds_and_prompts(rule: Rule) -> Rule:
    return attrs.evolve(
        rule,
        seeds=(),
        looks=(),
        prompts=(),
        prompt_factor=None,
    )


def rule_sentence(rule: Rule) -> str:
    """Return a sentence on the rule: which cells are stopped, when, and with which error rate."""
    than = "the baseline"
    if rule.worse_than == "best":
        than = "another cell"
    if rule.margin:
        than += f" by more than {rule.margin:g}"
    looks = f"{', '.join(map(str, rule.looks))} seeds"
    if rule.prompts:
        looks += f" under each of {count(len(rule.prompts), 'prompt')}"

    wrong = f"any such claim is wrong, at any look and about any of {len(rule.cells)} cells,"
    if rule.promise == "best":
        wrong = f"the best of {len(rule.cells)} cells is stopped, at any look,"
    return (
        f"A cell gets no further seeds once it is shown to be worse than {than} in {rule.score}. Looks are "
        f"after {looks}. The probability that {wrong} is at most {rule.error_rate:.2g}, if seeds of one cell "
        "do not vary far more than those of the other cells."
    )
