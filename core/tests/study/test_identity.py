from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sentbed.recipe import Recipe
from sentbed.registry import Plugins
from sentbed.study.identity import Identities, directory_of, slug
from toy_plugin import RECIPE

Load = Callable[..., Recipe]
TABLE = RECIPE.replace('data = { use = "words", rows = 11 }', 'data = { use = "table", path = "rows.tsv" }')


def key(recipe: Recipe, plugins: Plugins) -> str:
    return Identities(plugins).of(recipe)


@pytest.mark.parametrize(
    "override",
    [
        "stage.pull.loss.noise=0.25",
        "run.seed=8",
        "encoder.max_length=15",
        "stage.pull.epochs=3",
    ],
)
def test_what_decides_a_score_decides_the_key(override: str, recipe_of: Load, plugins: Plugins) -> None:
    assert key(recipe_of(RECIPE, override), plugins) != key(recipe_of(), plugins)


@pytest.mark.parametrize(
    "override",
    [
        'run.name="other"',
        "run.cache=false",
        "checkpoint.every=3",
        "bootstrap.resamples=200",
        "expected.gap.value=1.0",
    ],
)
def test_what_decides_no_score_leaves_the_key(override: str, recipe_of: Load, plugins: Plugins) -> None:
    more = ["expected.gap.tolerance=1.0"] if override.startswith("expected") else []
    assert key(recipe_of(RECIPE, override, *more), plugins) == key(recipe_of(), plugins)


def test_a_default_that_is_written_out_leaves_the_key(recipe_of: Load, plugins: Plugins) -> None:
    assert key(recipe_of(RECIPE, "stage.pull.max_grad_norm=1.0"), plugins) == key(recipe_of(), plugins)


def test_the_content_of_a_file_decides_and_not_its_time(
    recipe_of: Load, plugins: Plugins, put: Callable[[str, str], Path]
) -> None:
    put("rows.tsv", "anchor\tpositive\n" + "one\ttwo\n" * 4)
    before = key(recipe_of(TABLE), plugins)
    put("rows.tsv", "anchor\tpositive\n" + "one\ttwo\n" * 4)
    assert key(recipe_of(TABLE), plugins) == before
    put("rows.tsv", "anchor\tpositive\n" + "one\tsix\n" * 4)
    assert key(recipe_of(TABLE), plugins) != before


def test_the_source_of_a_plugin_decides(
    recipe_of: Load, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key(recipe_of(), plugins)
    monkeypatch.setattr("sentbed.study.identity.package_code", lambda cls: f"edited {cls.__name__}")
    assert key(recipe_of(), plugins) != before


def test_the_name_of_a_directory_is_made_of_harmless_letters() -> None:
    assert slug("../first, α = 0.5") == "first_----0.5"
    assert slug("///") == "cell"
    path = directory_of("mean, x", 3, "0123456789abcdef")
    assert path == Path("cells/mean_x-seed3-0123456789")
