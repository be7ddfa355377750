"""Every problem of a wrong recipe is reported where it stands: `wrong_recipes.toml` has the recipes."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import tomli
from sentbed import RecipeError, load_recipe
from sentbed.protocols import Backbone, Pooler
from sentbed.tools import Offer
from sentbed_poolers.template_prompt import TemplatePrompt
from toy_plugin import RECIPE, TOWERS

CORPUS = tomli.loads(Path(__file__).with_name("wrong_recipes.toml").read_text("utf-8"))
RECIPES = {"plain": RECIPE, "towers": TOWERS, **CORPUS["recipes"]}
EOL, BERT = TemplatePrompt("prompt-eol"), TemplatePrompt("prompt-bert")


def part(base, name, **properties):
    """Make a component class that says this of itself."""
    body = {"name": name, "build": print, **properties}
    class_name = name.replace("-", "_")
    return attrs.make_class(class_name, {}, bases=(base,), frozen=True, class_body=body)


def backbone(name, *offers, **properties):
    return part(Backbone, name, offers=frozenset(offers), **properties)


def pooler(name, *needs, **properties):
    return part(Pooler, name, needs=frozenset(needs), **properties)


BACKBONES = [
    backbone("masked", "bidirectional", "mask-token", "layers"),
    backbone("left-to-right", "causal", "layers"),
    backbone("two-part", "bidirectional", "decoder"),
    backbone("hiding", "decoder", "span"),
    backbone("clean", "mask-token", "template-alone"),
    backbone("untrained", pretrained=False),
    backbone("bare"),
]
POOLERS = [
    pooler("start", "bidirectional"),
    pooler("first", pooling="cls"),
    pooler("end"),
    pooler("word", "causal", "template", prompt=EOL),
    pooler("asked", "causal", "template"),
    pooler("blank", "mask-token", "template", prompt=BERT),
    pooler("cleaned", "mask-token", "template-alone", "template", prompt=BERT),
    pooler("hole", "mask-token"),
    pooler("answer", "decoder"),
    pooler("depth", "layers", "bidirectional"),
    pooler("odd", "telepathy", "causal"),
    pooler("loads", pretrained=True),
    pooler("mlp", at_test="bare"),
]


@pytest.fixture
def all_plugins(plugins):
    """The toy plugin, whose parts say nothing of what they need, and parts that do."""
    offers = dict(plugins.offers)
    for kind, classes in (("backbone", BACKBONES), ("pooler", POOLERS)):
        for cls in classes:
            offers[kind, cls.name] = [Offer(kind, cls.name, cls, "parts", "1.0")]
    return attrs.evolve(plugins, offers=offers)


def text_of(case):
    text = case.get("text") or RECIPES[case.get("recipe", "plain")]
    for old, new in case.get("change", {}).items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text + case.get("add", "")


def place_of(problem, files):
    """Return path, file and the text of the line; for a problem without a line, the last is empty."""
    if problem.line is None:
        return problem.path, problem.file or "", ""
    lines = files[problem.file].split("\n")
    line = lines[problem.line - 1].strip()
    return problem.path, problem.file, line


@pytest.mark.parametrize(
    "case",
    CORPUS["case"],
    ids=lambda case: case["problems"][0]["at"],
)
def test_every_problem_of_a_wrong_recipe_is_reported_where_it_stands(
    case,
    put,
    all_plugins,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    files = {"recipe.toml": text_of(case)}
    files |= case.get("files", {})
    for name, text in files.items():
        put(name, text)
    overrides = case.get("set", ())
    with pytest.raises(RecipeError) as caught:
        load_recipe("recipe.toml", overrides, all_plugins)

    problems = caught.value.problems
    expectations = case["problems"]
    assert len(problems) == len(expectations), problems
    for problem, expected in zip(problems, expectations, strict=True):
        path, file, line = place_of(problem, files)
        assert path == expected["at"]
        assert file == expected.get("file", "recipe.toml")
        assert line == expected.get("line", "")
        for word in expected["words"]:
            assert word in problem.message


@pytest.mark.parametrize("case", CORPUS["right"], ids=str)
def test_a_recipe_that_is_right_has_no_problem(case, put, all_plugins):
    assert load_recipe(put("r.toml", text_of(case)), case["set"], all_plugins).stage


def test_bytes_that_are_no_utf_8_are_reported_with_their_line(put, plugins):
    path = put("recipe.toml", b"a = 1\nb = 'caf\xe9'\n")
    with pytest.raises(RecipeError, match=r"this is not UTF-8: .*recipe.toml:2"):
        load_recipe(path, (), plugins)


def test_three_problems_are_shown_in_the_order_of_their_lines(put, plugins):
    text = RECIPE.replace("seed = 7", "sede = 7").replace("epochs", "epoch")
    with pytest.raises(RecipeError) as caught:
        load_recipe(put("r.toml", text), ["run.name=3"], plugins)
    file = caught.value.problems[-1].file
    assert str(caught.value).splitlines() == [
        "3 problems in the recipe:",
        "  found 3, expected a string @ --set run.name",
        f"  unknown key `sede`. Did you mean `seed`? @ {file}:5 run.sede",
        f"  unknown key `epoch`. Did you mean `epochs`? @ {file}:22 stage.pull.epoch",
    ]
