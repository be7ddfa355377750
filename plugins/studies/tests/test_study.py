from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import sentbed
from click.testing import CliRunner
from sentbed import RecipeError
from sentbed._cli.main import main
from sentbed._recipe.load import load_recipe
from sentbed._recipe.recipe import resolved_toml
from sentbed_studies.axes import labels_that_are_equal
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.study import (
    read_study,
    require_cells_of_labels,
    require_runtimes,
)
from toy_plugin import RECIPE, Lines, Toy

STAGE = '"stage.0.loss"'
LOSSES = """
[study.axes.rate]
path = "stage.pull.optimizer.lr"
values = [0.1, 0.2]
[study.axes.loss]
pull = { "stage.0.loss" = { use = "pull" } }
chase = { "stage.0.loss" = { use = "chase", most = 3 } }
"""
"""A batch of four is too large for `chase`."""


@pytest.fixture
def study(put, plugins, tmp_path, monkeypatch):
    """Load the toy recipe with a study behind it; `s.toml` has it from line 28 on."""
    monkeypatch.chdir(tmp_path)
    assert RECIPE.count("\n") == 26

    def load(text, *overrides):
        put("s.toml", f"{RECIPE}{text}")
        return read_study("s.toml", overrides, plugins)

    return load


def problems(study, text, *overrides):
    with pytest.raises(RecipeError) as caught:
        study(text, *overrides)
    return list(map(str, caught.value.problems))


def rates(study):
    optimizers = [cell.recipe.stage[0].optimizer for cell in study.runs]
    return [optimizer.lr for optimizer in optimizers]


# --- cells -------------------------------------------------------------------------------------------------


def test_every_combination_and_seed_is_a_cell_with_a_recipe_of_its_own(
    study,
):
    expanded = study(f"{LOSSES}[study]\nseeds = [3, 1]\n", "stage.0.batch_size=2")
    assert [str(cell) for cell in expanded.runs] == [
        f"{rate}, {loss}, seed {seed}"
        for rate in (0.1, 0.2)
        for loss in ("pull", "chase")
        for seed in (3, 1)
    ]
    assert rates(expanded) == [0.1] * 4 + [0.2] * 4
    assert [cell.recipe.stage[0].loss.name for cell in expanded.runs[:4]] == [
        "pull",
        "pull",
        "chase",
        "chase",
    ]
    assert [cell.recipe.run.seed for cell in expanded.runs] == [3, 1] * 4
    assert expanded.runs[2].labels == {"rate": "0.1", "loss": "chase"}
    assert (expanded.name, expanded.seeds, expanded.baseline, expanded.excluded) == (
        "toy-run",
        (3, 1),
        None,
        (),
    )
    assert expanded.names == ("0.1, pull", "0.1, chase", "0.2, pull", "0.2, chase")


def test_without_seeds_a_cell_has_the_seed_of_the_recipe(study):
    assert study(LOSSES).seeds == (7,)
    assert study(LOSSES, "run.seed=9").seeds == (9,)


def test_a_cell_is_the_recipe_with_the_same_overrides(study, plugins, put):
    cell = study(f"{LOSSES}[study]\nseeds = [3]\n", "stage.0.batch_size=2").runs[-1]
    settings = [
        "stage.0.optimizer.lr=0.2",
        "stage.0.loss={use='chase', most=3}",
        "run.seed=3",
    ]
    alone = load_recipe(
        put("alone.toml", RECIPE), [*settings, "stage.0.batch_size=2"], plugins
    )
    assert cell.recipe == alone
    assert resolved_toml(cell.recipe) == resolved_toml(alone)


def test_an_override_of_what_an_axis_varies_is_refused_with_the_axis(study):
    (message,) = problems(study, LOSSES, "stage.0.optimizer.lr=9")
    assert message.startswith(
        "found the override `stage.0.optimizer.lr`, but the axis `rate` sets `stage.pull.optimizer.lr`"
    )


def test_an_override_can_change_the_study(study):
    expanded = study(
        LOSSES,
        "study.axes.rate.values=[0.4]",
        "study.seeds=[5]",
        "study.axes.loss.chase=",
    )
    assert [str(cell) for cell in expanded.runs] == ["0.4, pull, seed 5"]


def test_a_recipe_that_only_its_cells_complete_is_enough(study):
    expanded = study(LOSSES, "stage.0.optimizer.lr=", "stage.0.loss=")
    assert expanded.names == ("0.1, pull", "0.2, pull")


def test_a_later_axis_changes_what_an_earlier_one_has_put_there(study):
    text = (
        f'[study.axes.loss]\nwhole = {{ {STAGE} = {{ use = "pull", noise = 0.5 }} }}\n'
        '[study.axes.noise]\npath = "stage.0.loss.noise"\nvalues = [0.25, 0.75]\n'
    )
    losses = [cell.recipe.stage[0].loss for cell in study(text).runs]
    assert [loss.noise for loss in losses] == [0.25, 0.75]


def test_a_fault_of_the_table_is_reported_at_its_line(study):
    text = '[study]\nseed = [1]\nseeds = [-1]\n[study.axes.a]\npath = "run.name"\nvalues = ["x"]\n'
    first, second = problems(study, text)
    assert first == "unknown key `seed`. Did you mean `seeds`? @ s.toml:28 study.seed"
    assert second.startswith("'seeds' must be >= 0: -1 @ ")
    assert second.endswith(" @ s.toml:29 study.seeds")


def test_a_study_is_not_run_as_one_run_and_the_error_names_the_command(study, plugins):
    study(f"[study]\n{LOSSES}")
    with pytest.raises(RecipeError) as caught:
        sentbed.run(load_recipe("s.toml", (), plugins), plugins=plugins)
    (problem,) = caught.value.problems
    assert str(problem) == (
        "the recipe has a `[study]`, and `sentbed run` runs one recipe, not its cells; use `sentbed study`, "
        "with `--only AXIS=LABEL` for some of them, or take the table out @ s.toml:27 study"
    )
    assert not Path("runs").exists()


# --- cells that cannot work --------------------------------------------------------------------------------


def test_a_cell_whose_parts_do_not_go_together_is_excluded_with_the_reason(
    study,
):
    expanded = study(LOSSES)
    assert expanded.names == ("0.1, pull", "0.2, pull")
    assert [(each.cell.name, each.reasons) for each in expanded.excluded] == [
        (name, ("a batch of 4 is more than 3; make it smaller",))
        for name in ("0.1, chase", "0.2, chase")
    ]


def test_a_loss_whose_column_the_data_lacks_is_a_misfit(study):
    text = '[study.axes.loss]\npath = "stage.0.loss.use"\nvalues = ["pull", "sort"]\n'
    expanded = study(text)
    assert expanded.names == ("pull",)
    (cell,) = expanded.excluded
    (reason,) = cell.reasons
    assert "needs the column `label`" in reason


def test_the_same_fault_in_all_cells_is_one_fault_of_the_recipe(study):
    messages = problems(study, LOSSES, "run.sede=1", "stage.0.batch_size=1.5")
    assert sorted(messages) == [
        "found 1.5, expected a whole number @ --set stage.pull.batch_size",
        "unknown key `sede`. Did you mean `seed`? @ --set run.sede",
    ]


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        (
            "",
            (),
            "the recipe has no `[study]`; give it axes, or use `sentbed run` @ s.toml study",
        ),
        (
            "[study]\nseeds = [1]\n",
            (),
            "the required key `axes` is missing @ s.toml:27 study",
        ),
        (
            LOSSES,
            ("study.axes.loss.pull=",),
            "no cell of the study can work: 0.1, chase: a batch of 4 is more than 3; make it smaller; "
            "0.2, chase: a batch of 4 is more than 3; make it smaller @ s.toml:28 study.axes",
        ),
        (
            f"{LOSSES}[study]\nseeds = [3, 1, 3]\n",
            (),
            "the seed 3 is named twice, and every cell runs once with each seed; "
            "name it once @ s.toml:35 study.seeds",
        ),
        # Reported once, at the axis, with a cell that has it.
        (
            LOSSES.replace('use = "pull"', 'use = "pul"'),
            (),
            "there is no loss `pul`. Did you mean `pull`? "
            "@ s.toml:32 stage.pull.loss.use of the cell `0.1, pull`",
        ),
        (
            f'{LOSSES}[study.baseline]\nloss = "chase"\nrate = "0.2"\n',
            (),
            "the baseline `0.2, chase` cannot work: a batch of 4 is more than 3; make it smaller "
            "@ s.toml:34 study.baseline",
        ),
        (
            f'{LOSSES}[study]\nexclude = [{{ rate = "0.2" }}]\n'
            'baseline = { loss = "pull", rate = "0.2" }\n',
            (),
            "the baseline `0.2, pull` is not a cell of the study; name one, such as `0.1, pull` "
            "@ s.toml:36 study.baseline",
        ),
        (
            f'{LOSSES}[study.expected."Table 1".cells]\n"0.2, chse" = {{ gap = 1 }}\n',
            (),
            "there is no cell `0.2, chse`; a cell is named by its labels in the order of the axes, "
            "such as `0.2, chase` @ s.toml:35 study.expected.Table 1.cells.0.2, chse",
        ),
        (
            f"{LOSSES}[study.references]\nBERT = {{}}\n",
            (),
            "the reference has no numbers; give it the `cell` that computes it, or published "
            "`scores` @ s.toml:35 study.references.BERT",
        ),
        (
            f'{LOSSES}[study.references]\nBERT = {{ cell = "0.2, chase", scores = {{ gap = 1 }} }}\n',
            (),
            "the reference has `cell` and `scores`; give it one of them @ s.toml:35 study.references.BERT",
        ),
        (
            f'{LOSSES}[study.references]\nBERT = {{ cell = "0.2, chse" }}\n',
            (),
            "there is no cell `0.2, chse`; a cell is named by its labels in the order of the axes, "
            "such as `0.2, chase` @ s.toml:35 study.references.BERT.cell",
        ),
    ],
)
def test_a_study_that_cannot_work_is_refused_with_the_reason_and_its_place(
    study, text, overrides, expected
):
    assert problems(study, text, *overrides) == [expected]


def test_a_misfit_beside_a_fault_is_no_fault(study):
    text = f'{LOSSES}[study.axes.at]\nx = {{ "evaluate.0.second" = "nobody" }}\n'
    messages = problems(study, text)
    assert len(messages) == 2
    assert not any("a batch of 4" in problem for problem in messages)


# --- cells that are not asked for --------------------------------------------------------------------------

ELSEWHERE = """
[study.axes.data]
words = {}
lines = { "stage.pull.data" = { use = "lines", path = "gone.txt" } }
"""


def test_files_of_cells_that_are_not_asked_for_may_be_missing(
    put, plugins, monkeypatch
):
    monkeypatch.setattr(Lines, "columns", ("anchor", "positive"))
    path = put("s.toml", RECIPE + ELSEWHERE)
    with pytest.raises(RecipeError, match=r"there is no file .*gone.txt"):
        read_study(path, (), plugins, only=[{"data": "lines"}])
    study = read_study(path, (), plugins, only=[{"data": "words"}])
    assert study.names == ("words", "lines")


def test_a_misspelt_name_is_a_fault_of_the_recipe_whatever_is_asked_for(put, plugins):
    path = put("s.toml", RECIPE + ELSEWHERE.replace('"lines"', '"lnes"'))
    with pytest.raises(RecipeError, match="there is no data `lnes`"):
        read_study(path, (), plugins, only=[{"data": "words"}])


def test_threads_are_a_fixed_number_of_the_study_and_decide_the_key(
    study, plugins, monkeypatch
):
    """The toy's runtime takes the number of threads as its token budget."""
    monkeypatch.setattr(
        Toy,
        "with_threads",
        lambda self, n: attrs.evolve(self, token_budget=n),
        raising=False,
    )

    def budgets_and_keys(text):
        recipes = [cell.recipe for cell in study(text).runs]
        keys = {CellKeys(plugins).of(recipe) for recipe in recipes}
        return {recipe.runtime.token_budget for recipe in recipes}, keys

    (by_default, keys), (three, others) = (
        budgets_and_keys(LOSSES),
        budgets_and_keys(f"{LOSSES}[study]\nthreads = 3\n"),
    )
    assert (by_default, three) == ({1}, {3})
    assert keys.isdisjoint(others)


# --- baseline and published numbers ------------------------------------------------------------------------


def test_a_fault_of_the_baseline_or_of_a_published_cell_is_that_fault_alone(
    study,
):
    text = LOSSES.replace('use = "pull"', 'use = "pul"').replace("most = 3", "most = 4")
    text += '[study]\nbaseline = { loss = "pull", rate = "0.1" }\n'
    (problem,) = problems(
        study, f'{text}[study.expected.T.cells]\n"0.2, pull" = {{ gap = 1 }}\n'
    )
    assert problem.startswith("there is no loss `pul`.")


def test_published_cells_must_be_there_but_may_be_excluded(study):
    cells = '"0.1, pull" = { gap = 1 }\n"0.2, chase" = { gap = 2 }\n'
    text = f'{LOSSES}[study.expected."Table 1".cells]\n{cells}'
    assert set(study(text).table.expected["Table 1"].cells) == {
        "0.1, pull",
        "0.2, chase",
    }


# --- some of the cells -------------------------------------------------------------------------------------


def test_only_keeps_the_cells_that_agree_with_an_entry(study):
    expanded = study(LOSSES, "stage.0.batch_size=2")
    kept = expanded.only([{"rate": "0.1", "loss": "chase"}, {"rate": ("0.2",)}])
    assert kept.names == ("0.1, chase", "0.2, pull", "0.2, chase")
    assert expanded.names == ("0.1, pull", "0.1, chase", "0.2, pull", "0.2, chase")


def test_only_refuses_what_is_not_there_and_what_leaves_nothing(study):
    expanded = study(LOSSES)
    with pytest.raises(
        RecipeError, match=r"the axis `rate` has no label `0.4`"
    ) as caught:
        expanded.only([{"rate": "0.4"}, {"los": "pull"}])
    assert [problem.path for problem in caught.value.problems] == [
        "--only rate",
        "--only los",
    ]
    with pytest.raises(
        RecipeError, match="no cell of the study is among those asked for"
    ):
        expanded.only([{"loss": "chase"}])


def test_a_cell_document_has_no_study_and_places_what_axes_set(study):
    expanded = study(LOSSES, "stage.0.batch_size=2")
    document = expanded.runs[-1].recipe.document
    assert "study" not in document.data
    places = [
        ("stage", 0, "loss"),
        ("stage", 0, "loss", "most"),
        ("stage", 0, "optimizer", "lr"),
        ("run", "name"),
    ]
    # Lines 30 and 33 are those of `values` and of the label.
    assert [document.place(path) for path in places] == [
        ("s.toml", 33),
        ("s.toml", 33),
        ("s.toml", 30),
        ("s.toml", 4),
    ]


def test_paths_that_axes_set_start_where_the_axis_is_written(
    put, plugins, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    put("axes/lines.txt", "one\ntwo\n")
    put(
        "base/base.toml",
        RECIPE + '[study.axes.data]\npath = "stage.0.data"\nlabels = ["a"]\n',
    )
    put(
        "axes/axes.toml",
        'study.axes.data.values = [{ use = "table", path = "lines.txt" }]',
    )
    put("top.toml", 'extends = ["base/base.toml", "axes/axes.toml"]')
    (cell,) = read_study("top.toml", plugins=plugins).runs
    data = cell.recipe.stage[0].data
    assert data.path == str(tmp_path / "axes" / "lines.txt")


@pytest.mark.usefixtures("installed_toy")
def test_a_label_of_which_no_cell_can_work_is_an_error_before_the_first_run(
    study,
):
    expanded = study(LOSSES)
    with pytest.raises(RecipeError) as caught:
        require_cells_of_labels(expanded)
    (problem,) = caught.value.problems
    assert str(problem) == (
        "no cell with the label `chase` of the axis `loss` can work: a batch of 4 is more than 3; make it "
        "smaller; or take the label out @ s.toml:31 study.axes.loss"
    )
    result = CliRunner().invoke(main, ["check", "s.toml"])
    assert result.exit_code == 2
    assert "no cell with the label `chase`" in result.output
    # A label that works in one cell is a part of the study.
    require_cells_of_labels(study(LOSSES.replace("most = 3", "most = 4")))


def test_labels_that_set_the_same_values_are_remarked_on(study):
    same = (
        '\n[study.axes.a]\npath = "stage.pull.optimizer.lr"\nvalues = [0.1, 0.1, 0.2]\n'
    )
    same += 'labels = ["x", "y", "z"]\n'
    (remark,) = labels_that_are_equal(study(same).axes)
    assert remark.startswith(
        "the labels `x` and `y` of the axis `a` set the same values"
    )
    assert [*labels_that_are_equal(study(LOSSES).axes)] == []


# --- the machine -------------------------------------------------------------------------------------------


def test_a_runtime_that_is_not_available_is_a_problem_where_cells_are_to_run_here(
    study, monkeypatch
):
    expanded = study(LOSSES)
    require_runtimes(expanded)
    monkeypatch.setattr(
        Toy, "unavailable", lambda self: "there is no toy here; buy one"
    )
    with pytest.raises(RecipeError) as caught:
        require_runtimes(expanded)
    (problem,) = caught.value.problems
    assert str(problem) == (
        "there is no toy here; buy one (cell `0.1, pull`) @ s.toml:7 runtime"
    )
