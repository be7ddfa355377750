from __future__ import annotations

import attrs
import pytest
from sentbed_report.run_cost import RecordedCost, RunCost
from sentbed_report.study.decisions import Claim, Decisions, Rule
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study_page.decisions_section import decisions_section, saved

RULE = Rule("best", 0.0, 0.05, (2, 6), ("a", "b"), "MR")
DECISIONS = Decisions(
    RULE, (Claim("b", "a", 2, 20.0, 5.0, 0.01),), (2, 6), ("a",), ended=True
)


@pytest.mark.parametrize(
    ("cost", "search", "expected"),
    [
        (None, 0.0, "4 min"),
        (RecordedCost(RunCost(20.0), {"pairs-1a": RunCost(40.0)}), 0.0, "1 min 20 s"),
        (RecordedCost(RunCost(20.0), {"pairs-1a": RunCost(40.0)}), 10.0, "2 min"),
        (RecordedCost(RunCost(), {"pairs-1a": RunCost()}), 0.0, "4 min"),
    ],
    ids=[
        "without a recorded cost",
        "own cost",
        "own cost and a search",
        "unknown cost",
    ],
)
def test_what_stopping_saves_is_without_shared_stages(cost, search, expected):
    run = CellRun(
        "b", 1, "finished", seconds=60.0 + search, record={"seconds": 60.0}, cost=cost
    )
    stopped = CellInfo("b", {}, (run, attrs.evolve(run, seed=2)))
    data = StudyData(
        "toy", (), (stopped,), None, (1, 2), decisions=DECISIONS, needless=4
    )
    (sentence,) = saved(data)
    assert f"would have taken about {expected} more" in sentence


def test_what_stopping_saves_counts_the_runs_of_each_prompt():
    runs = []
    for prompt in ("p", "q", "r"):
        for seed in (1, 2):
            runs.append(CellRun("b", seed, "finished", seconds=100.0, prompt=prompt))
    stopped = CellInfo("b", {}, tuple(runs))
    data = StudyData(
        "toy",
        (),
        (stopped,),
        None,
        (1, 2),
        decisions=DECISIONS,
        needless=12,
        prompts=("p", "q", "r"),
    )
    # Four seeds under three prompts, of 100 s each.
    assert "The 12 runs" in saved(data)[0]
    assert "would have taken about 20 min more" in saved(data)[0]


@pytest.mark.parametrize(
    ("prompts", "prompt_factor", "remark"),
    [
        (("q", "p"), "random", ""),
        (("p", "q", "r"), "random", "The prompts were changed while the study ran."),
        ((), None, "The prompts were changed while the study ran."),
        (
            ("p", "q"),
            "fixed",
            "The `prompt_factor` was changed while the study ran, to `random`.",
        ),
        (
            ("q", "p"),
            "fixed",
            "The `prompt_factor` was changed while the study ran, to `random`.",
        ),
    ],
)
def test_what_was_changed_about_the_prompts_is_remarked_if_it_spends_a_part_of_the_error_rate(
    prompts, prompt_factor, remark
):
    rule = attrs.evolve(RULE, prompts=("p", "q"), prompt_factor="random")
    earlier = attrs.evolve(rule, prompts=prompts, prompt_factor=prompt_factor)
    decisions = attrs.evolve(DECISIONS, rule=rule, earlier=(earlier,))
    cell = CellInfo("b", {}, (CellRun("b", 1, "finished", prompt="p"),))
    section = decisions_section(
        StudyData("toy", (), (cell,), None, (1, 2), decisions=decisions)
    )
    remarks = [note for note in section.notes if "changed while the study ran" in note]
    if not remark:
        assert remarks == []
        return
    (note,) = remarks
    assert note.startswith(remark)
    assert "spends a part of the error rate" in note
