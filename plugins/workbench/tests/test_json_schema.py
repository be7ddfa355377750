from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
import jsonschema
import pytest
import tomli
from click.testing import CliRunner
from sentbed import FilePath, RecipeError
from sentbed._cli import main as cli
from sentbed._recipe.load import load_recipe
from sentbed._registry.registry import load_plugins
from sentbed.protocols import Loss
from sentbed_workbench.component_docs import describe
from sentbed_workbench.json_schema import recipe_schema
from toy_plugin import RECIPE, TOWERS


@attrs.frozen
class Inner:
    """A table within a component."""

    first: int
    second: int = 2


@attrs.frozen
class Every(Loss):
    """A loss with a field of each type."""

    name: ClassVar[str] = "every"
    columns = frozenset()

    text: str = "a"
    """A word."""
    whole: int | None = None
    number: float = 0.5
    flag: bool = False
    file: FilePath | None = None
    one_of: Literal["x", "y", 3] = "x"
    many: tuple[int, ...] = ()
    two: tuple[str, int] = ("a", 1)
    texts: str | tuple[str, ...] = ("s",)
    mapped: Mapping[str, float] = attrs.field(factory=dict)
    inner: float | Inner = 1.0
    others: tuple[Loss, ...] = ()
    hidden: int = attrs.field(default=0, metadata={"skip": True})
    odd: Any = None
    finite: float = math.inf
    place: Any = Path("x")
    some_of: Any = attrs.field(factory=frozenset)
    twice: int = attrs.field()

    @twice.default
    def _twice(self):
        return 2 * (self.whole or 0)

    def build(self, width):
        raise NotImplementedError


if TYPE_CHECKING:
    from decimal import Decimal


@attrs.frozen
class Unreadable(Loss):
    """A loss with a type that is there for a type checker only."""

    name: ClassVar[str] = "unreadable"
    columns = frozenset()

    deep: Decimal | None = None
    flag: bool = False

    def build(self, width):
        raise NotImplementedError


@pytest.fixture(scope="module")
def parts(toy_points):
    """The toy plugin, and two losses more."""
    plugins = load_plugins(toy_points)
    offers = dict(plugins.offers)
    pull = plugins.find("loss", "pull")
    for cls in (Every, Unreadable):
        offers["loss", cls.name] = [attrs.evolve(pull, name=cls.name, target=cls)]
    return attrs.evolve(plugins, offers=offers)


@pytest.fixture(scope="module")
def schema(parts):
    return dict(json.loads(json.dumps(recipe_schema(parts), allow_nan=False)))


@pytest.fixture(scope="module")
def judge(schema):
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def faults(judge, text):
    errors = judge.iter_errors(tomli.loads(text))
    return [
        (".".join(map(str, error.absolute_path)), error.message) for error in errors
    ]


@pytest.mark.parametrize("recipe", [RECIPE, TOWERS])
def test_a_recipe_is_accepted_and_so_is_any_part_of_one(judge, recipe):
    assert faults(judge, recipe) == []
    whole = tomli.loads(recipe)
    assert [
        list(judge.iter_errors({key: value}))
        for key, value in whole.items()
        if key != "schema"
    ] == [[] for _ in range(len(whole) - 1)]


LOSS = 'use = "pull"'


@pytest.mark.parametrize(
    "field",
    [
        'text = "abc"',
        "whole = 8",
        "number = 1",
        "number = 0.001",
        "flag = true",
        'file = "x.csv"',
        "one_of = 3",
        "many = [1, 2]",
        'two = ["b", 2]',
        'texts = "s"',
        'texts = ["s", "t"]',
        "mapped = { a = 1, b = 2.5 }",
        "inner = 3",
        "inner = { first = 1 }",
        'others = [{ use = "pull" }, { use = "every", others = [{ use = "chase" }] }]',
        "odd = { anything = [1] }",
    ],
)
def test_a_value_of_a_field_is_accepted(judge, field):
    assert faults(judge, RECIPE.replace(LOSS, f'use = "every", {field}')) == []


@pytest.mark.parametrize(
    ("field", "at"),
    [
        ("text = 3", "text"),
        ("whole = 1.5", "whole"),
        ("whole = true", "whole"),
        ('number = "1"', "number"),
        ("flag = 1", "flag"),
        ("file = 1", "file"),
        ('one_of = "z"', "one_of"),
        ("many = 1", "many"),
        ('two = ["a"]', "two"),
        ("two = [1, 2]", "two.0"),
        ("mapped = { a = true }", "mapped.a"),
        ("inner = { first = 1, third = 3 }", "inner"),
        (
            'others = [{ use = "every", others = [{ use = "none" }] }]',
            "others.0.others.0.use",
        ),
        ("hidden = 1", ""),
        ("name = 1", ""),
    ],
)
def test_a_value_that_a_field_cannot_have_is_refused_where_it_stands(judge, field, at):
    problems = faults(judge, RECIPE.replace(LOSS, f'use = "every", {field}'))
    assert problems
    assert {place for place, _ in problems} == {f"stage.0.loss.{at}".rstrip(".")}


def test_a_mistake_has_one_message(judge):
    recipe = RECIPE.replace(LOSS, 'use = "pull", temperture = 1').replace(
        "seed = 7", 'seed = "7"'
    )
    assert sorted(faults(judge, recipe)) == [
        ("run.seed", "'7' is not of type 'integer'"),
        (
            "stage.0.loss",
            "Additional properties are not allowed ('temperture' was unexpected)",
        ),
    ]


def test_a_file_on_top_of_another_may_leave_keys_out_and_may_not_add_any(
    judge,
):
    top = 'extends = "base.toml"\nschema = 1\n[[stage]]\nname = "pull"\nloss.temperature = 2\nvalidate = {}\n'
    assert faults(judge, top) == []
    # Without `use`, any field of any loss may be meant, and no other.
    assert faults(judge, top.replace("temperature", "temperture")) != []
    assert faults(judge, top.replace("temperature = 2", 'temperature = "2"')) != []


def test_either_encoder_or_encoders(judge):
    assert faults(judge, RECIPE + "[encoders.en]\n") != []
    assert (
        faults(judge, TOWERS.replace("[encoders.zh]", "[encoders.zh]\nmax_lenth = 3"))
        != []
    )


def test_keys_have_their_documentation_and_defaults(schema, parts):
    pull = schema["definitions"]["loss.pull"]
    assert pull["description"] == "Half the mean squared distance of a pair."
    assert pull["properties"]["temperature"] == {
        "type": "number",
        "description": "What the distance is divided by.",
        "default": 1.0,
    }
    use = schema["definitions"]["loss.any"]["properties"]["use"]
    assert use["enum"] == parts.names("loss")
    about = dict(zip(use["enum"], use["x-taplo"]["docs"]["enumValues"], strict=True))
    assert about["pull"] == "Half the mean squared distance of a pair."
    run = schema["allOf"][0]["properties"]["run"]["$ref"].rpartition("/")[2]
    assert schema["definitions"][run]["properties"]["seed"]["default"] == 42


def test_a_default_that_json_cannot_say_is_left_out(schema, parts):
    fields = schema["definitions"]["loss.every"]["properties"]
    unknown = ["finite", "place", "some_of", "twice"]
    assert [key for key in fields if "default" not in fields[key]] == [
        "use",
        "whole",
        "file",
        "odd",
        *unknown,
    ]
    assert fields["number"] == {
        "type": "number",
        "default": 0.5,
    }
    text = describe(parts.find("loss", "every"))
    assert [
        key
        for key in fields
        if f"  {key}: " in text and re.search(rf"  {key}: .*, optional", text)
    ] == unknown
    assert "  whole: int | None, default none\n" in text
    assert "  many: tuple[int, ...], default []\n" in text


def test_a_field_whose_type_cannot_be_read_takes_any_value(judge):
    for field in ("deep = 3", 'deep = "x"', "flag = true"):
        assert faults(judge, RECIPE.replace(LOSS, f'use = "unreadable", {field}')) == []
    wrong = RECIPE.replace(LOSS, 'use = "unreadable", unknown = 1')
    assert faults(judge, wrong) != []


def test_a_component_that_cannot_be_loaded_is_left_out_and_said(parts, schema):
    pull = parts.find("loss", "pull")
    broken = attrs.evolve(pull, name="broken", target="toy_plugin:Missing")
    more = {**parts.offers, ("loss", "broken"): [broken]}
    warnings = []
    result = recipe_schema(attrs.evolve(parts, offers=more), warnings.append)
    assert json.loads(json.dumps(result)) == schema
    (warning,) = warnings
    assert warning.startswith("the schema is without the loss `broken`: ")


def test_what_editors_complete_from_has_every_field_of_every_component(schema, parts):
    definitions = schema["definitions"]
    for kind in ("loss", "optimizer", "data", "backbone"):
        keys = set(definitions[f"{kind}.any"]["properties"])
        classes = [parts.load(kind, name) for name in parts.names(kind)]
        fields = set()
        for cls in classes:
            for field in attrs.fields(cls):
                if not field.metadata.get("skip"):
                    fields.add(field.metadata.get("key", field.name))
        assert keys == {"use", *fields}


def test_every_reference_leads_somewhere(schema):
    references = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(schema)))
    assert len(references) > 20
    for reference in references:
        place = schema
        for key in reference.split("/"):
            place = place[key]
        assert isinstance(place, dict)


def test_a_whole_number_in_the_place_of_a_float_is_accepted_and_not_the_other_way_round(
    judge, plugins, put
):
    assert faults(judge, RECIPE.replace("lr = 0.5", "lr = 1")) == []
    assert faults(judge, RECIPE.replace("epochs = 2", "epochs = 2.5")) != []
    # JSON does not tell 2.0 from 2, `sentbed check` does.
    whole = RECIPE.replace("epochs = 2", "epochs = 2.0")
    assert faults(judge, whole) == []
    with pytest.raises(RecipeError, match=r"found 2\.0, expected a whole number"):
        load_recipe(put("recipe.toml", whole), plugins=plugins)


@pytest.mark.slow
def test_the_command_prints_it_or_writes_it(installed_toy, tmp_path):
    run = CliRunner().invoke
    printed = run(cli.main, ["schema"])
    assert printed.exit_code == 0
    assert (
        json.loads(printed.output)["$schema"]
        == "http://json-schema.org/draft-07/schema#"
    )
    file = tmp_path / "sentbed.schema.json"
    assert run(cli.main, ["schema", "--output", str(file)]).output == f"{file}\n"
    assert file.read_text() == printed.output
