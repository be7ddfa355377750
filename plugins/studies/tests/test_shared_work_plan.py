from __future__ import annotations

import pytest
from sentbed._recipe.recipe import first_stages
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.shared_work_plan import plan_work
from sentbed_studies.study import read_study
from toy_plugin import TOWERS, Characters


@pytest.fixture
def make(put, plugins):
    """Plan the work of a study of two stages."""

    def plan(axes, share=True):
        study = read_study(
            put("study.toml", f"{TOWERS}\n[study]\nseeds = [1, 2]\n{axes}"), (), plugins
        )
        return study, plan_work("towers", study.runs, CellKeys(plugins), share)

    return plan


def names(prefix):
    return [stage.name for stage in prefix.recipe.stage[: prefix.stages]]


def cells_of(work, prefix):
    return tuple(str(task) for task in work.tasks if prefix in task.before)


LATE = '[study.axes.lr]\npath = "stage.tune.optimizer.lr"\nvalues = [0.5, 0.25]\n'
EARLY = '[study.axes.noise]\npath = "stage.pairs.loss.noise"\nvalues = [0.0, 0.5]\n'


def test_cells_that_differ_in_the_second_stage_share_the_first_under_each_seed(
    make,
):
    _, work = make(LATE)
    assert list(map(names, work.shared_stages)) == [["pairs"]] * 2
    assert [cells_of(work, prefix) for prefix in work.shared_stages] == [
        ("0.5, seed 1", "0.25, seed 1"),
        ("0.5, seed 2", "0.25, seed 2"),
    ]
    for task in work.tasks:
        assert task.above in work.shared_stages
    assert {
        task.above.recipe.run.seed == task.run.seed for task in work.tasks if task.above
    } == {True}


def test_cells_that_differ_in_the_first_stage_share_nothing(make):
    _, work = make(EARLY)
    assert work.shared_stages == []
    assert len(work.tasks) == 4
    for task in work.tasks:
        assert task.above is None


AGAIN = """[study.axes.end]
once = {}
twice = { evaluate = [
    { use = "across", encoder = "zh", second = "en", at = ["start", "end"] },
    { use = "lottery", encoder = "zh" },
] }
"""


def test_cells_that_differ_in_evaluation_alone_are_one_run(make):
    _, work = make(AGAIN)
    assert [len(task.runs) for task in work.tasks] == [2, 2]
    assert work.shared_stages == []
    (task, _) = work.tasks
    once, twice = task.runs
    assert (once.name, twice.name) == ("once", "twice")
    # The evaluation before and after training is that of both cells, the other one that of the second.
    assert (len(once.evaluations), len(twice.evaluations)) == (2, 3)
    assert sorted(task.evaluation_keys) == sorted(twice.evaluations)
    assert work.only([{"end": "twice"}]).tasks == work.tasks


def test_a_longer_prefix_goes_on_from_a_shorter_one(make):
    third = """[study.axes.rows]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""
    dimensions = cut("zh", '"end"')
    _, work = make(third + dimensions)
    depths = [len([*prefix.before]) for prefix in work.shared_stages]
    assert depths == [0, 0, 1, 1, 1, 1]
    assert all(
        prefix.above in work.shared_stages[:2] for prefix in work.shared_stages[2:]
    )
    for task in work.tasks:
        assert len([*task.before]) == 2


def test_texts_of_a_later_stage_count_where_a_tokenizer_may_be_trained_on_them(
    make, monkeypatch
):
    axes = '[study.axes.rows]\npath = "stage.tune.data.rows"\nvalues = [7, 8]\n'
    _, work = make(axes)
    assert work.shared_stages == []
    monkeypatch.setattr(Characters, "from_files", True)
    _, work = make(axes)
    assert list(map(names, work.shared_stages)) == [["pairs"]] * 2


def test_nothing_is_shared_where_nobody_wants_it(make):
    _, work = make(LATE, share=False)
    assert work.shared_stages == []
    for bundle in work.bundles:
        assert len(bundle.tasks) == 1


def test_the_work_of_some_cells_has_the_stages_that_they_need(make):
    study, work = make(LATE + EARLY)
    assert len(work.shared_stages) == 4
    work_of_cells = work.only([{"noise": "0.5"}])
    assert len(work_of_cells.shared_stages) == 2
    assert [str(task) for task in work_of_cells.tasks] == [
        str(cell) for cell in study.runs if cell.labels["noise"] == "0.5"
    ]


def test_first_stages_evaluate_only_what_is_evaluated_before_them(make):
    study, _ = make(LATE)
    recipe = first_stages(study.runs[0].recipe, 1)
    assert [stage.name for stage in recipe.stage] == ["pairs"]
    assert [entry.at for entry in recipe.evaluate] == [("start",)]


def cut(encoder, at):
    return "[study.axes.kept]\n" + "".join(
        f'"{kept}" = {{ "encoders.{encoder}.head.dimensions" = {kept}, '
        f'evaluate = [{{ use = "lottery", encoder = "zh", at = [{at}] }}] }}\n'
        for kept in (2, 1)
    )


def test_cells_that_keep_other_dimensions_of_what_they_train_share_the_stages(
    make,
):
    _, work = make(cut("zh", '"end"'))
    assert [cells_of(work, prefix) for prefix in work.shared_stages] == [
        ("2, seed 1", "1, seed 1"),
        ("2, seed 2", "1, seed 2"),
    ]


@pytest.mark.parametrize(("encoder", "at"), [("en", '"end"'), ("zh", '"start", "end"')])
def test_cells_that_keep_other_dimensions_share_nothing_where_these_are_seen(
    make, encoder, at
):
    _, work = make(cut(encoder, at))
    assert work.shared_stages == []
