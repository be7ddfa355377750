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
    """Return the section; None if the study has not tested any cells yet."""
    decisions = data.decisions
    if decisions is None or not decisions.looks:
        return None
    tables = [_table(decisions)] if decisions.claims else []
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
    """Return a sentence on what is decided."""
    if decisions.rule.worse_than == "best" and decisions.winner is not None:
        return (
            f"The best cell is {decisions.winner}: all others were shown to be worse."
        )
    other = "another" if decisions.rule.worse_than == "best" else "the baseline"
    so_far = "" if decisions.ended else " so far"
    cells = "; ".join(decisions.at_work)
    return f"Not shown to be worse than {other}{so_far}: {cells}."


def saved(data: StudyData) -> tuple[str, ...]:
    """Return a sentence on the time that the skipped runs would have taken; empty if none was skipped.

    The time of stages that they would have shared with other runs is not counted.
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
        f"{duration(total)} more, if as long as the others of their cells.",
    )


def _seconds_without_shared_stages(run: CellRun) -> float | None:
    """Return the time of a run with its search, without shared stages if the recorded cost separates them."""
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
    """Return sentences on the decisions and the number of skipped runs; empty before the first look."""
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
            "The score of a cell that was stopped is a little too low, since it was stopped when it looked "
            "bad; the bound in the column “at least” holds all the same. p: times all looks and all claims "
            "that were possible."
        )
    if not decisions.over_items:
        yield "Over seeds alone: a score that decides has no items, so that other items may decide otherwise."
    for cell, reason in decisions.left.items():
        yield f"Not compared at the last look: {cell}: {reason}."
    if decisions.earlier:
        yield from _changes(decisions)


def _changes(decisions: Decisions) -> Iterator[str]:
    """Yield sentences on changes of the rule while the study ran, and their effect on the error rate."""
    rule = decisions.rule
    other_rules = 0
    seeds = set()
    prompts = set()
    prompt_factors = set()
    for earlier in decisions.earlier:
        if _without_seeds_and_prompts(earlier) != _without_seeds_and_prompts(rule):
            other_rules += 1
        seeds.add(earlier.seeds)
        # In another order they are the same prompts.
        prompts.add(frozenset(earlier.prompts))
        if earlier.prompts:
            prompt_factors.add(earlier.prompt_factor)
    seeds.discard(rule.seeds)
    prompts.discard(frozenset(rule.prompts))
    prompt_factors.discard(rule.prompt_factor)

    if other_rules:
        yield (
            f"The rule or the cells were changed while the study ran ({count(other_rules, 'other rule')} "
            "before), and the error rate holds for one rule only."
        )
    if seeds:
        listed = "; ".join(", ".join(map(str, of_rule)) for of_rule in sorted(seeds))
        yield (
            f"The seeds were changed while the study ran (before: {listed}). Looks that were not planned at "
            "first spend a part of the error rate that was kept for them, so that it holds all the same."
        )
    if prompts:
        yield (
            "The prompts were changed while the study ran. Each look at other prompts is one that was not "
            "planned, and spends a part of the error rate that was kept for such looks."
        )
    if rule.prompts and prompt_factors:
        yield (
            f"The `prompt_factor` was changed while the study ran, to `{rule.prompt_factor}`. Each "
            "look under another one than the first is one that was not planned, and spends a part of the "
            "error rate that was kept for such looks."
        )


def _without_seeds_and_prompts(rule: Rule) -> Rule:
    return attrs.evolve(rule, seeds=(), looks=(), prompts=(), prompt_factor=None)


def rule_sentence(rule: Rule) -> str:
    """Return a sentence on the rule: which cells are stopped, when, and with which error rate."""
    against = "another one" if rule.worse_than == "best" else "the baseline"
    by = f" by more than {rule.margin:g}" if rule.margin else ""
    looks = ", ".join(map(str, rule.looks))
    under = ""
    if rule.prompts:
        under = f" under each of {count(len(rule.prompts), 'prompt')}"
    wrong = f"any such claim is wrong, at any look and about any of {len(rule.cells)} cells,"
    if rule.promise == "best":
        wrong = f"the best of {len(rule.cells)} cells is stopped, at any look,"
    return (
        f"A cell gets no further seeds once it is shown to be worse than {against}{by} in {rule.score}. "
        f"Looks after {looks} seeds{under}; the probability that {wrong} is at most {rule.error_rate:.2g}, "
        "if seeds of one cell do not vary far more than those of the others."
    )
