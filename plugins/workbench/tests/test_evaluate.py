from __future__ import annotations

import io
import json

import pytest
from click.testing import CliRunner
from sentbed import RecipeError, build_encoder
from sentbed._cli.main import main
from sentbed_workbench import evaluate
from sentbed_workbench.evaluate import evaluate_encoder
from toy_plugin import Gap


@pytest.fixture
def encoder(installed_toy, recipe_of, tmp_path):
    """An encoder that is also on disk, in `encoder` of the test's directory."""
    built = build_encoder(recipe_of())
    built.save(tmp_path / "encoder")
    return built


def test_an_encoder_on_disk_is_evaluated_with_the_fields_given(encoder, tmp_path):
    evaluation = evaluate_encoder(
        str(tmp_path / "encoder"), "gap", ["target=1.5", "left=ab", "runtime.use=toy"]
    )
    assert evaluation.primary == pytest.approx(
        Gap("ab", target=1.5).prepare().evaluate(encoder).primary
    )
    (score,) = evaluation.scores
    assert (score.encoder, score.evaluator) == (str(tmp_path / "encoder"), "gap")


def test_scores_are_printed_for_people_and_for_programs(encoder, tmp_path):
    place = str(tmp_path / "encoder")
    arguments = [
        "evaluate",
        place,
        "--with",
        "gap",
        "--set",
        "runtime.use=toy",
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    *names, value = result.output.split()
    assert names == ["gap", "distance", "gap"]

    result = CliRunner().invoke(main, [*arguments, "--json"])
    (score,) = json.loads(result.output)
    assert f"{score['value']:.2f}" == value
    assert score["encoder"] == place
    assert score["evaluator"] == "gap"


@pytest.mark.parametrize(
    ("evaluator", "overrides", "paths"),
    [
        ("gapp", [], ["evaluate.use"]),
        ("gap", ["targt=1"], ["evaluate.targt"]),
        (
            "gap",
            ["target=x", "runtime.precision=fp8"],
            ["evaluate.target", "runtime.precision"],
        ),
    ],
)
def test_everything_wrong_with_a_request_is_reported_at_once(
    evaluator,
    overrides,
    paths,
    encoder,
    tmp_path,
):
    with pytest.raises(RecipeError) as caught:
        evaluate_encoder(
            str(tmp_path / "encoder"), evaluator, [*overrides, "runtime.use=toy"]
        )
    assert [problem.path for problem in caught.value.problems] == paths


def test_every_part_of_an_evaluation_has_a_bar_that_leaves(
    monkeypatch,
):
    from rich.console import Console
    from rich.progress import Progress

    progress = Progress(
        console=Console(force_terminal=True, file=io.StringIO()), disable=True
    )
    monkeypatch.setattr(evaluate, "progress_bars", lambda: progress)
    with evaluate._bars() as show_progress:
        show_progress("encode", 1, 4)
        show_progress("MR: classifiers", 2, 10)
        shown = [
            (task.description, task.completed, task.total) for task in progress.tasks
        ]
        assert shown == [("encode", 1, 4), ("MR: classifiers", 2, 10)]
        show_progress("encode", 4, 4)
        assert [task.description for task in progress.tasks] == ["MR: classifiers"]


def test_an_error_of_the_evaluator_names_it(encoder, tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("broken")

    monkeypatch.setattr("toy_plugin.Prepared", broken)
    place = str(tmp_path / "encoder")
    arguments = ["--with", "gap", "--set", "runtime.use=toy"]
    result = CliRunner().invoke(main, ["evaluate", place, *arguments])
    assert result.exit_code == 1
    note = result.output.splitlines()[-1]
    assert note.startswith("in the evaluator `gap` of `toy`")
