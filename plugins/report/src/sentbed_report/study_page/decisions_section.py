"""What a study with `[study.stop]` decided, as a section of its report."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from sentbed.helpers import score_digits

from sentbed_report.formatting import count, duration, number, probability
from sentbed_report.study.decisions import Decisions, Rule
from sentbed_report.study.study_data import CellRun, StudyData
from sentbed_report.study_page.sections import Section, SectionRow, SectionTable


def decisions_section(data: StudyData) -> Section | None:
    """Return the section; None if the study has made no look."""
    found = data.decisions
    if found is None or not found.looks:
        return None
    digits = score_digits(number for one in found.claims for number in (one.difference, one.at_least))
    rows = tuple(
        SectionRow(
            one.cell,
            (
                one.than,
                str(one.seeds),
                number(one.difference, digits),
                number(one.at_least, digits),
                probability(one.p_value),
            ),
            one.cell,
        )
        for one in found.claims
    )
    table = SectionTable("", ("Stopped", "worse than", "seeds", "by", "at least", "p"), rows, (2, 3, 4, 5))
    return Section("Decisions", decided(data), (table,) if rows else (), tuple(_remarks(found)))


def outcome(found: Decisions) -> str:
    """Return a sentence on what is decided."""
    if found.rule.worse_than == "best" and found.winner is not None:
        return f"The best cell is {found.winner}: all others were shown to be worse."
    worse = "worse than another" if found.rule.worse_than == "best" else "worse than the baseline"
    listed = "; ".join(found.at_work)
    return f"Not shown to be {worse}{'' if found.ended else ' so far'}: {listed}."


def saved(data: StudyData) -> tuple[str, ...]:
    """Return a sentence on the time that runs would have taken which were not needed; none without any.

    Stages that they would have shared are none of it.
    """
    found = data.decisions
    if found is None or not data.needless:
        return ()
    seeds = found.rule.looks[-1]
    times = []
    for cell in data.cells:
        seconds = [one for run in cell.runs if (one := _own_seconds(run)) is not None]
        if seconds:
            left = seeds - len(cell.runs) if found.ended or cell.name not in found.at_work else 0
            times.append(max(left, 0) * sum(seconds) / len(seconds))
    return (
        f"The {count(data.needless, 'run')} that stopping made needless would have taken about "
        f"{duration(sum(times))} more, if as long as the others of their cells.",
    )


def _own_seconds(run: CellRun) -> float | None:
    """Return the time of a run with its search, and without shared stages where its cost tells them apart."""
    whole = run.record.get("seconds")
    if run.seconds is None or whole is None or run.cost is None or run.cost.own.seconds is None:
        return run.seconds
    return run.seconds - float(whole) + run.cost.own.seconds


def decided(data: StudyData) -> tuple[str, ...]:
    """Return what is decided, and how many runs are not needed; nothing before the first look."""
    found = data.decisions
    if found is None or not found.looks:
        return ()
    if not data.needless:
        return (outcome(found),)
    planned = data.total + data.needless
    return (
        outcome(found),
        f"{count(data.needless, 'run')} of {planned:,} ({data.needless / planned:.0%}) "
        f"{'were' if found.ended else 'are'} not needed.",
    )


def _remarks(found: Decisions) -> Iterator[str]:
    yield rule_sentence(found.rule)
    if found.claims:
        yield (
            "The score of a cell that was stopped is a little too low, since it was stopped when it looked "
            "bad; the bound in the column “at least” holds all the same. p: times all looks and all claims "
            "that were possible."
        )
    if not found.over_items:
        yield "Over seeds alone: a score that decides has no items, so that other items may decide otherwise."
    for cell, why in found.left.items():
        yield f"Not compared at the last look: {cell}: {why}."
    if found.earlier:
        yield from _changes(found)


def _changes(found: Decisions) -> Iterator[str]:
    """Yield what was changed while the study ran, and what that means for the error rate."""
    others = [rule for rule in found.earlier if _without_seeds(rule) != _without_seeds(found.rule)]
    if others:
        yield (
            f"The rule or the cells were changed while the study ran ({count(len(others), 'other rule')} "
            "before), and the error rate holds for one rule only."
        )
    seeds = {rule.seeds for rule in found.earlier} - {found.rule.seeds}
    if seeds:
        listed = "; ".join(", ".join(map(str, one)) for one in sorted(seeds))
        yield (
            f"The seeds were changed while the study ran (before: {listed}). Looks that were not planned at "
            "first spend a part of the error rate that was kept for them, so that it holds all the same."
        )


def _without_seeds(rule: Rule) -> Rule:
    return attrs.evolve(rule, seeds=(), looks=())


def rule_sentence(rule: Rule) -> str:
    """Return what is stopped, when, and how often that may be wrong."""
    against = "another one" if rule.worse_than == "best" else "the baseline"
    by = f" by more than {rule.margin:g}" if rule.margin else ""
    looks = ", ".join(map(str, rule.looks))
    wrong = f"any such claim is wrong, at any look and about any of {len(rule.cells)} cells,"
    if rule.promise == "best":
        wrong = f"the best of {len(rule.cells)} cells is stopped, at any look,"
    return (
        f"A cell gets no further seeds once it is shown to be worse than {against}{by} in {rule.score}. "
        f"Looks after {looks} seeds; the probability that {wrong} is at most {rule.error_rate:.2g}, if seeds "
        "of one cell do not vary far more than those of the others."
    )
