from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs
import pytest
import toy_plugin
from attrs.validators import ge, in_, optional
from sentbed import FilePath, ModelId
from sentbed._document.structuring import structure, unstructure
from sentbed._document.toml import parse
from sentbed._registry.registry import load_plugins
from sentbed.protocols import Backbone, DataSource, Evaluator, Loss

BASE = Path("/recipes/here")


@attrs.frozen
class Values:
    whole: int = 1
    number: float = 1.0
    flag: bool = False
    text: str = ""
    choice: Literal["red", "green", 3] = "red"
    maybe: int | None = None
    either: int | str = 0
    many: tuple[int, ...] = ()
    pair: tuple[int, str] = (0, "")
    named: Mapping[str, float] = attrs.field(factory=dict)
    tables: tuple[Inner, ...] = ()
    one_or_more: Inner | tuple[Inner, ...] | None = None
    inner: Inner | None = None
    file: FilePath | None = None
    model: ModelId | None = None


@attrs.frozen
class Inner:
    size: int = attrs.field(validator=ge(1))
    other_size: int = 1


@attrs.frozen
class Parts:
    loss: Loss | None = None
    backbone: Backbone | None = None
    data: DataSource | None = None
    losses: tuple[Loss, ...] = ()


@attrs.frozen
class Inline:
    evaluator: Evaluator = attrs.field(metadata={"inline": True})
    at: str = "end"


def read(text, cls, plugins):
    document = parse(text.encode(), "r.toml")
    value, problems = structure(document.data, cls, document, plugins, BASE)
    assert problems == []
    return value


def problems_of(text, cls, plugins):
    document = parse(text.encode(), "r.toml")
    _, problems = structure(document.data, cls, document, plugins, BASE)
    assert all(problem.file == "r.toml" for problem in problems)
    return [(problem.line, problem.path, problem.message) for problem in problems]


def problem_of(text, cls, plugins):
    (problem,) = problems_of(text, cls, plugins)
    return problem


# --- values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("whole = -3", "whole", -3),
        ("number = 0.5", "number", 0.5),
        ("number = 2", "number", 2.0),
        ("flag = true", "flag", True),
        ("text = 'x'", "text", "x"),
        ("choice = 'green'", "choice", "green"),
        ("choice = 3", "choice", 3),
        ("maybe = 4", "maybe", 4),
        ("either = 5", "either", 5),
        ("either = '5'", "either", "5"),
        ("many = []", "many", ()),
        ("many = [3, 1, 2]", "many", (3, 1, 2)),
        ("pair = [1, 'a']", "pair", (1, "a")),
        ("named = { a = 1, 'b c' = 0.5 }", "named", {"a": 1.0, "b c": 0.5}),
        ("tables = [{ size = 1 }, { size = 2 }]", "tables", (Inner(1), Inner(2))),
        ("[inner]\nsize = 3", "inner", Inner(3)),
    ],
)
def test_a_value_of_the_right_type_is_kept_with_its_type(text, field, value, plugins):
    structured = getattr(read(text, Values, plugins), field)
    assert structured == value
    assert type(structured) is type(value)


@attrs.frozen
class NumberOrText:
    value: float | str = ""


# Fails: "found 1, expected a number or a string".
def test_a_whole_number_is_a_number_among_alternatives_too(plugins):
    value = read("value = 1", NumberOrText, plugins).value
    assert (value, type(value)) == (1.0, float)


def test_elements_of_number_fields_are_floats(plugins):
    assert [
        type(v) for v in read("named = { a = 1 }", Values, plugins).named.values()
    ] == [float]


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("whole = 1.9", "whole", "found 1.9, expected a whole number"),
        ("whole = 2.0", "whole", "found 2.0, expected a whole number"),
        ("whole = true", "whole", "found True, expected a whole number"),
        ("whole = '1'", "whole", "found '1', expected a whole number: write `1`"),
        ("whole = '01'", "whole", "found '01', expected a whole number"),
        ("text = 1e-5", "text", 'found 1e-05, expected a string: write `"1e-05"`'),
        ("number = true", "number", "found True, expected a number"),
        ("number = '1.5'", "number", "found '1.5', expected a number: write `1.5`"),
        ("flag = 'false'", "flag", "found 'false', expected true or false"),
        ("flag = 0", "flag", "found 0, expected true or false"),
        ("text = 1", "text", 'found 1, expected a string: write `"1"`'),
        ("text = ['a']", "text", "found the array ['a'], expected a string"),
        ("text = { a = 1 }", "text", "found the table {'a': 1}, expected a string"),
        ("maybe = 1.5", "maybe", "found 1.5, expected a whole number"),
        ("either = true", "either", "found True, expected a whole number or a string"),
        ("many = 1", "many", "found 1, expected an array: write `[1]`"),
        ("many = 'abc'", "many", "found 'abc', expected an array: write `[\"abc\"]`"),
        ("many = [1, 2.5]", "many.1", "found 2.5, expected a whole number"),
        ("pair = [1]", "pair", "found the array [1], expected an array of 2"),
        (
            "pair = [1, 'a', 2]",
            "pair",
            "found the array [1, 'a', 2], expected an array of 2",
        ),
        ("pair = ['a', 'a']", "pair.0", "found 'a', expected a whole number"),
        ("named = [1]", "named", "found the array [1], expected a table"),
        ("named = { a = 'x' }", "named.a", "found 'x', expected a number"),
        ("inner = 3", "inner", "found 3, expected a table"),
        (
            "tables = { size = 1 }",
            "tables",
            "found the table {'size': 1}, expected an array",
        ),
        ("one_or_more = 3", "one_or_more", "found 3, expected a table or an array"),
        (
            "one_or_more = { other_size = 1 }",
            "one_or_more",
            "the required key `size` is missing",
        ),
        ("tables = [3]", "tables.0", "found 3, expected a table"),
        ("file = 3", "file", 'found 3, expected a string: write `"3"`'),
        ("model = false", "model", "found False, expected a string"),
    ],
)
def test_a_value_of_another_type_is_a_problem_and_is_never_converted(
    text, path, message, plugins
):
    assert problem_of(f"\n{text}", Values, plugins) == (2, path, message)


@pytest.mark.parametrize("value", ["'gren'", "'Z'", "'3'", "3.0", "['red']"])
def test_a_value_outside_its_choices_is_a_problem_that_names_them(value, plugins):
    message = (
        f"found {value}, which is not supported; choose one of `3`, `green`, `red`"
    )
    assert problem_of(f"choice = {value}", Values, plugins) == (1, "choice", message)


# --- tables ------------------------------------------------------------------------------------------------


def test_an_unknown_key_is_a_problem_that_suggests_the_closest_one(plugins):
    assert problem_of("whole = 1\nwhle = 2", Values, plugins) == (
        2,
        "whle",
        "unknown key `whle`. Did you mean `whole`?",
    )


def test_an_unknown_key_that_is_close_to_none_lists_all_of_them_sorted(plugins):
    assert problem_of("[inner]\nsize = 1\nzzz = 2", Values, plugins) == (
        3,
        "inner.zzz",
        "unknown key `zzz`. Choose one of `other_size`, `size`.",
    )


def test_a_missing_required_key_is_a_problem_of_its_table(plugins):
    assert problem_of("\n[inner]\nother_size = 1", Values, plugins) == (
        2,
        "inner",
        "the required key `size` is missing",
    )


def test_a_value_that_a_validator_refuses_is_a_problem_of_its_key(plugins):
    line, path, message = problem_of("[inner]\nsize = 0", Values, plugins)
    assert (line, path) == (2, "inner.size")
    assert message == "found 0, expected at least 1"


@pytest.mark.parametrize("validator", [in_([1, 2]), optional(in_([1, 2]))])
def test_the_message_of_any_attrs_validator_is_shown(validator, plugins):
    cls = attrs.make_class(
        "Cls", {"size": attrs.field(type=int, validator=validator)}, frozen=True
    )
    line, path, message = problem_of("size = 3", cls, plugins)
    assert (line, path) == (1, "size")
    assert message.startswith("found 3: 'size' must be in [1, 2]")


@attrs.frozen
class Range:
    low: int = 0
    high: int = attrs.field(default=1)

    @high.validator
    def _above_low(self, attribute, value):
        if value <= self.low:
            raise ValueError("`high` must be above `low`")


@attrs.frozen
class HasRange:
    range: Range


# Fails: the validator is called with None in the place of the instance, and AttributeError goes through.
def test_a_validator_that_looks_at_another_field_is_a_problem_too(plugins):
    line, path, message = problem_of("[range]\nlow = 3\nhigh = 2", HasRange, plugins)
    assert line in (1, 3)
    assert path in ("range", "range.high")
    assert message.endswith("`high` must be above `low`")
    assert read("[range]\nlow = 3\nhigh = 4", HasRange, plugins) == HasRange(
        Range(3, 4)
    )


@attrs.frozen
class Exclusive:
    first: int = 0
    second: int = 0

    def __attrs_post_init__(self):
        if self.first and self.second:
            raise ValueError("`first` and `second` exclude each other; give one")


@attrs.frozen
class HasExclusive:
    both: Exclusive


def test_a_combination_that_the_class_refuses_is_a_problem_of_the_table(plugins):
    text = "[both]\nfirst = 1\nsecond = 1"
    assert problem_of(text, HasExclusive, plugins) == (
        1,
        "both",
        "`first` and `second` exclude each other; give one",
    )


def test_every_fault_of_a_document_is_reported_once_in_the_order_of_lines(plugins):
    text = "whole = 1.5\nflaag = true\n[inner]\nsize = 0\nx = 1\n[[tables]]\n[[tables]]\nsize = 'a'\n"
    assert [(line, path) for line, path, _ in problems_of(text, Values, plugins)] == [
        (1, "whole"),
        (2, "flaag"),
        (4, "inner.size"),
        (5, "inner.x"),
        (6, "tables.0"),
        (8, "tables.1.size"),
    ]


# --- paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("data.tsv", "/recipes/here/data.tsv"),
        ("./data.tsv", "/recipes/here/data.tsv"),
        ("../data/x.tsv", "/recipes/data/x.tsv"),
        ("/abs/x.tsv", "/abs/x.tsv"),
        ("pkg:some_package/data/x.tsv", "pkg:some_package/data/x.tsv"),
        ("data:sts/x.tsv", "data:sts/x.tsv"),
        ("hub:owner/name", "hub:owner/name"),
    ],
)
def test_a_file_path_is_relative_to_the_recipe_unless_it_has_a_scheme(
    written, read_as, plugins
):
    assert read(f"file = '{written}'", Values, plugins).file == read_as


def test_a_file_path_below_the_home_directory_is_expanded(plugins, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert read("file = '~/x.tsv'", Values, plugins).file == "/home/someone/x.tsv"
    assert read("model = '~/m'", Values, plugins).model == "/home/someone/m"


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("owner/name", "owner/name"),
        ("name", "name"),
        ("pkg:some_package/model", "pkg:some_package/model"),
        ("./model", "/recipes/here/model"),
        ("../model", "/recipes/model"),
        ("/abs/model", "/abs/model"),
    ],
)
def test_a_model_id_is_a_directory_only_where_it_looks_like_one(
    written, read_as, plugins
):
    assert read(f"model = '{written}'", Values, plugins).model == read_as


# --- components --------------------------------------------------------------------------------------------


def test_a_component_table_becomes_the_component_with_its_fields(plugins):
    parts = read("loss = { use = 'pull', temperature = 2 }", Parts, plugins)
    assert parts.loss == toy_plugin.Pull(temperature=2.0)


def test_fields_of_a_component_are_checked_like_any_table(plugins):
    text = "[loss]\nuse = 'pull'\ntemprature = 1\nnan_at = 'x'\n[backbone]\nuse = 'characters'\nwidth = 0\n"
    problems = problems_of(text, Parts, plugins)
    assert [(line, path) for line, path, _ in problems] == [
        (3, "loss.temprature"),
        (4, "loss.nan_at"),
        (7, "backbone.width"),
    ]
    assert "Did you mean `temperature`?" in problems[0][2]


def test_a_field_that_is_no_parameter_cannot_be_set(plugins):
    assert problem_of("[data]\nuse = 'words'\nrequests = []", Parts, plugins) == (
        3,
        "data.requests",
        "unknown key `requests`. Choose one of `rows`.",
    )


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (
            "loss = { temperature = 1.0 }",
            "loss",
            "the loss has no `use`; name one of `chase`, `grade`, `pull`, `sort`",
        ),
        (
            "loss = { use = 3 }",
            "loss",
            "the loss has no `use`; name one of `chase`, `grade`, `pull`, `sort`",
        ),
        (
            "loss = 'pull'",
            "loss",
            "found 'pull', expected a table with `use = \"...\"` that names a loss",
        ),
        (
            "loss = { use = 'pul' }",
            "loss.use",
            "there is no loss `pul`. Did you mean `pull`?",
        ),
        (
            "loss = { use = 'qqq' }",
            "loss.use",
            "there is no loss `qqq`. Choose one of `chase`, `grade`, `pull`, `sort`.",
        ),
        (
            "loss = { use = 'info-nce' }",
            "loss.use",
            "the loss `info-nce` belongs to `sentbed-losses`, which is not installed; "
            "install it with `pip install sentbed-losses`",
        ),
        (
            "losses = [{ use = 'pull' }, { use = 'x' }]",
            "losses.1.use",
            "there is no loss `x`.",
        ),
    ],
)
def test_a_component_that_cannot_be_found_is_a_problem_that_says_what_can(
    text, path, message, plugins
):
    line, problem_path, problem = problem_of(text, Parts, plugins)
    assert (line, problem_path) == (1, path)
    assert problem.startswith(message)


def test_a_component_of_another_kind_does_not_fit(plugins):
    assert problem_of("loss = { use = 'characters' }", Parts, plugins)[2].startswith(
        "there is no loss `characters`."
    )


def test_keys_of_an_inline_component_stand_beside_those_of_its_table(plugins):
    value = read("at = 'start'\nuse = 'gap'\ntarget = 0.5", Inline, plugins)
    assert value == Inline(toy_plugin.Gap(target=0.5), "start")


def test_faults_of_an_inline_component_have_the_path_at_which_they_stand(plugins):
    problems = problems_of(
        "use = 'gap'\nat = 3\ntarget = 'x'\ntaget = 1", Inline, plugins
    )
    assert [(line, path) for line, path, _ in problems] == [
        (2, "at"),
        (3, "target"),
        (4, "taget"),
    ]


# --- and back ----------------------------------------------------------------------------------------------


def test_a_structured_value_is_written_with_every_default_and_without_none(plugins):
    value = read("many = [1, 2]\ntables = [{ size = 5 }]\n", Values, plugins)
    assert unstructure(value) == {
        "whole": 1,
        "number": 1.0,
        "flag": False,
        "text": "",
        "choice": "red",
        "either": 0,
        "many": [1, 2],
        "pair": [0, ""],
        "named": {},
        "tables": [{"size": 5, "other_size": 1}],
    }


def test_components_are_written_as_the_tables_that_they_are_read_from():
    value = Inline(toy_plugin.Gap(target=0.5), "start")
    assert unstructure(value) == {
        "use": "gap",
        "left": "abc",
        "right": "nop",
        "target": 0.5,
        "development": False,
        "at": "start",
    }
    assert unstructure(toy_plugin.Words(3)) == {"use": "words", "rows": 3}


# --- types that are not there at run time ------------------------------------------------------------------


def test_a_field_whose_type_is_imported_for_type_checkers_only_is_a_problem_that_names_it(
    distribute,
):
    source = """
from __future__ import annotations
import attrs
import sentbed
from sentbed.protocols import Loss
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pathlib import Path

@attrs.frozen
class Mine(Loss):
    '''A loss.'''
    name: ClassVar[str] = "mine"
    size: int = 1
    file: Path | None = None
    needs = frozenset()
    def build(self, width): ...

@sentbed.hookimpl
def losses(): return [Mine]
"""
    plugins = load_plugins(distribute("d", {"checked_plugin": source}))
    document = parse(b'[loss]\nuse = "mine"\n', "r.toml")
    _, (problem,) = structure(document.data, Parts, document, plugins, BASE)
    assert problem.message == (
        "the type of the field `file` of `Mine` (checked_plugin) cannot be found: name 'Path' is not "
        "defined; its plugin must import it outside `if TYPE_CHECKING`"
    )
    assert problem.path == "loss"
