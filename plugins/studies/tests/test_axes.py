from __future__ import annotations

import re
from pathlib import Path

import pytest
from sentbed import RecipeError
from sentbed._document.structuring import structure
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._toml import parse
from sentbed_studies.axes import (
    baseline_of,
    cell_document,
    combinations,
    read_axes,
)
from sentbed_studies.study_config import StudyTable

NO_PLUGINS: Plugins = load_plugins([])

TWO = """\
[study.axes.size]
path = "encoder.backbone.size"
values = ["small", "large"]
[study.axes.lr]
path = "stage.0.optimizer.lr"
values = [0.1, 0.2, 0.3]
"""


def read(text):
    document = parse(text.encode(), "s.toml")
    table = structure(document, StudyTable, NO_PLUGINS, Path("/here"), ("study",))
    return table, read_axes(table, document), document


def axis(content):
    (only_axis,) = read(f"[study.axes.a]\n{content}\n")[1]
    return only_axis


def cells(text):
    table, axes, document = read(text)
    return list(combinations(table, axes, document))


def names(text):
    return [cell.name for cell in cells(text)]


def problems(text):
    with pytest.raises(RecipeError) as caught:
        cells(text)
    return [str(problem) for problem in caught.value.problems]


# --- axes over one path, or over several at once -----------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ('["first", "mean"]', ("first", "mean")),
        ("[1, 20]", ("1", "20")),
        ("[0.05, 5e-5, 1.0]", ("0.05", "5e-05", "1.0")),
        ("[true, false]", ("true", "false")),
        ('[{ use = "a", x = 1 }, { use = "b" }]', ("a", "b")),
        ('[[], ["x"], ["x", 2, true]]', ("none", "x", "x 2 true")),
        ('[[{ use = "a" }, { use = "b" }]]', ("a b",)),
        ("[1979-05-27]", ("1979-05-27",)),
    ],
)
def test_labels_are_the_values_as_one_would_write_them(values, labels):
    assert axis(f'path = "p"\nvalues = {values}').labels == labels


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        (
            'path = "p"\nvalues = [{ x = 1 }, { x = 2 }]\nlabels = ["one", "two"]',
            {"one": {"p": {"x": 1}}, "two": {"p": {"x": 2}}},
        ),
        (
            'path = ["a.b", "c"]\nvalues = [1, 2]',
            {"1": {"a.b": 1, "c": 1}, "2": {"a.b": 2, "c": 2}},
        ),
        # The lines of a file are labels after the values.
        (
            'path = "p"\nvalues = [{}]\nlabels = ["none"]\nfile = "f.txt"\nlines = 2',
            {
                "none": {"p": {}},
                "1": {"p": {"file": "f.txt", "line": 1}},
                "2": {"p": {"file": "f.txt", "line": 2}},
            },
        ),
        (
            'x = { "a.b" = 1, "c.d" = { use = "u" } }\ny = {}\n"a label" = { d = [1] }',
            {"x": {"a.b": 1, "c.d": {"use": "u"}}, "y": {}, "a label": {"d": [1]}},
        ),
        # Labels may have the names of keys.
        (
            "path = { a = 1 }\nvalues = { a = 2 }",
            {"path": {"a": 1}, "values": {"a": 2}},
        ),
        # A dotted key without quotes is a path, and one in quotes sets the whole table.
        ("l = { a.b.use = 'x' }", {"l": {"a.b.use": "x"}}),
        (
            "l = { a = { b = { use = 'x' }, c = 3 } }",
            {"l": {"a.b.use": "x", "a.c": 3}},
        ),
        ("l = { 'a.b' = { use = 'x', y = 1 } }", {"l": {"a.b": {"use": "x", "y": 1}}}),
        ("l = { a = { 'b.use' = 'x' } }", {"l": {"a.b.use": "x"}}),
        ("l = { stage.0.columns = {} }", {"l": {"stage.0.columns": {}}}),
        ("l = { stage.0.x = [{ y = 1 }] }", {"l": {"stage.0.x": [{"y": 1}]}}),
    ],
)
def test_a_label_sets_values_at_paths(content, settings):
    assert axis(content).settings == settings


def test_the_paths_of_an_axis_are_those_of_the_recipe_with_stages_by_name():
    recipe = parse(b'[[stage]]\nname = "nli"\n[encoder]\nmax_length = 3\n', "r.toml")
    several = axis(
        'path = ["stage.0.loss.temperature", "stage.1.x", "encoder.pooler"]\nvalues = [1, 2]'
    )
    assert several.paths(recipe) == (
        "stage.nli.loss.temperature",
        "stage.1.x",
        "encoder.pooler",
    )
    of_labels = axis(
        'large = { encoder.backbone.model = "x", "encoder.head" = { dim = 3 } }\nsmall = {}'
    )
    assert of_labels.paths(recipe) == ("encoder.backbone.model", "encoder.head")


@pytest.mark.parametrize(
    ("content", "numbers"),
    [
        ('path = "p"\nvalues = [1, 0.5, 20]', (1.0, 0.5, 20.0)),
        ('path = ["p", "q"]\nvalues = [1, 2]', (1.0, 2.0)),
        ('path = "p"\nvalues = [1, 2]\nlabels = ["one", "two"]', (1.0, 2.0)),
        ("a = { p = 1, q = 1 }\nb = { p = 2 }", (1.0, 2.0)),
        ("a = { p = 1, q = 2 }\nb = { p = 2 }", None),
        ("a = { p = 1 }\nb = {}", None),
        ('path = "p"\nvalues = [1, "2"]', None),
        ('path = "p"\nvalues = [true, false]', None),
    ],
)
def test_an_axis_has_numbers_where_each_label_sets_one_number(content, numbers):
    assert axis(content).numbers == numbers


SIZES = """
[study.axes.size]
base = { p = "t5-base" }
large = { p = "t5-large" }
[study.numbers]
"""


def test_labels_have_the_numbers_that_the_recipe_gives_them():
    (only_axis,) = read(SIZES + "size = { large = 335e6, base = 110e6 }")[1]
    assert (only_axis.labels, only_axis.numbers) == (("base", "large"), (110e6, 335e6))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (
            "size = { base = 110e6 }",
            "the label `large` has no number; give one to each label of the axis",
        ),
        ("size = { base = 1, large = 2, huge = 3 }", "`huge`"),
        (
            "sizes = { base = 1, large = 2 }",
            "there is no axis `sizes`. Did you mean `size`?",
        ),
    ],
)
def test_numbers_of_labels_that_do_not_fit_the_axis_are_refused(numbers, message):
    with pytest.raises(RecipeError, match=re.escape(message)):
        cells(SIZES + numbers)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            'path = "p"',
            "the axis has a `path` and no `values`; give it an array of them",
        ),
        (
            'path = "p"\nvalues = []',
            "`values` is [], expected an array of at least one value",
        ),
        (
            'path = "p"\nvalues = 3',
            "`values` is 3, expected an array of at least one value",
        ),
        (
            'path = "p"\nvalues = [1]\nlabls = ["x"]',
            "unknown key `labls`. Did you mean `labels`?",
        ),
        (
            'path = "p"\nvalues = [1]\nlabels = "x"',
            "`labels` is to be an array of strings, one for each value",
        ),
        (
            'path = "p"\nvalues = [1]\nlabels = [1]',
            "`labels` is to be an array of strings, one for each value",
        ),
        (
            'path = "p"\nvalues = [1, 2]\nlabels = ["x"]',
            "there are 2 values and 1 labels; give as many of each",
        ),
        (
            'path = "p"\nvalues = [1, "1"]',
            "two values have one label (1, 1); give `labels` that differ",
        ),
        (
            'path = "p"\nvalues = [{ x = 1 }]',
            "the values are tables without `use`; give the axis `labels`, one for each value",
        ),
        (
            'path = "p"\nvalues = [[{ x = 1 }]]',
            "the values are tables without `use`; give the axis `labels`, one for each value",
        ),
        (
            'path = "p"\nfile = "f.txt"',
            "`file` is 'f.txt' and `lines` is None; give the file of the prompts, and the number of its lines "
            "that are labels",
        ),
        (
            'path = "p"\nfile = "f.txt"\nlines = 2\nlabels = ["a", "b"]',
            "the axis has a `path` and no `values`; give it an array of them",
        ),
        (
            "",
            "the axis has no labels; give it `path` and `values`, or a table for each label",
        ),
    ],
)
def test_what_is_wrong_with_an_axis_is_said_where_it_stands(content, message):
    assert problems(f"[study.axes.a]\n{content}\n") == [
        f"{message} @ s.toml:1 study.axes.a"
    ]


@pytest.mark.parametrize(
    "content",
    ["values = [1]", "path = []\nvalues = [1]", "path = 3\nvalues = [1]", "x = 1"],
)
def test_a_label_that_is_no_table_says_what_an_axis_looks_like(content):
    (problem,) = problems(f"[study.axes.a]\n{content}\n")
    assert "expected a table of the values that it sets, by path" in problem
    assert "an axis over one path has `path` and `values`" in problem


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("run.seed", "seeds are no labels; write `seeds = [1, 2, 3]` under `[study]`"),
        ("run.name", "a name changes no score; vary what the scores depend on"),
        ("run.cache", "no score depends on it; take it out"),
        ("study.seeds", "a cell has no study; take it out"),
        ("study", "a cell has no study; take it out"),
        ("", "a path is that of `--set`, such as `encoder.pooler.use`"),
    ],
)
def test_what_a_cell_cannot_have_is_no_axis(path, reason):
    assert problems(f'[study.axes.a]\npath = "{path}"\nvalues = [1, 2]') == [
        f"the axis sets `{path}`: {reason} @ s.toml:1 study.axes.a"
    ]


def test_the_faults_of_all_axes_are_reported_at_once():
    messages = problems(
        '[study.axes.a]\npath = "p"\n[study.axes.b]\n[study.axes.c]\nx = {}\n'
    )
    assert [problem.rpartition(" @ ")[2] for problem in messages] == [
        "s.toml:1 study.axes.a",
        "s.toml:3 study.axes.b",
    ]


# --- combinations ------------------------------------------------------------------------------------------


def test_every_combination_is_a_cell_and_the_last_axis_changes_fastest():
    assert names(TWO) == [
        "small, 0.1",
        "small, 0.2",
        "small, 0.3",
        "large, 0.1",
        "large, 0.2",
        "large, 0.3",
    ]
    assert cells(TWO)[4].labels == {"size": "large", "lr": "0.2"}


def test_a_later_axis_has_the_last_word_on_a_path():
    _, axes, _ = read(
        '[study.axes.a]\nx = { "p" = 1, "q.r.s" = 1 }\n'
        '[study.axes.b]\ny = { "q.r" = { t = 2 }, "p" = 2 }\nz = {}\n'
    )
    recipe = parse(b"p = 0\nq.r.s = 0\n", "s.toml")
    both, problems_of_both = cell_document(recipe, zip(axes, ("x", "y"), strict=True))
    alone, problems_of_alone = cell_document(recipe, zip(axes, ("x", "z"), strict=True))
    assert (problems_of_both, problems_of_alone) == ([], [])
    assert both.data == {"p": 2, "q": {"r": {"t": 2}}}
    assert alone.data == {"p": 1, "q": {"r": {"s": 1}}}


def test_ranks_are_within_axes_that_there_are():
    (problem,) = problems(f'study.ranks = ["sise"]\n{TWO}')
    assert problem.startswith("there is no axis `sise`. Did you mean `size`?")
    assert len(names(f'study.ranks = ["size"]\nstudy.colour = "STSB"\n{TWO}')) == 6


def test_exclude_leaves_out_what_agrees_with_an_entry_in_all_axes_that_it_names():
    assert names(
        f'study.exclude = [{{ size = "small", lr = ["0.1", "0.3"] }}]\n{TWO}'
    ) == [*("small, 0.2", "large, 0.1", "large, 0.2", "large, 0.3")]
    assert names(
        f'study.exclude = [{{ size = "small" }}, {{ lr = "0.1" }}]\n{TWO}'
    ) == [
        "large, 0.2",
        "large, 0.3",
    ]


def test_a_study_that_excludes_everything_is_refused():
    text = f'study.exclude = [{{ size = ["small", "large"] }}]\n{TWO}'
    assert problems(text) == [
        "`exclude` leaves no cell; take an entry out @ s.toml:1 study.exclude"
    ]


def test_two_cells_of_one_name_are_refused():
    text = '[study.axes.a]\n"x, y" = {}\nx = {}\n[study.axes.b]\nz = {}\n"y, z" = {}\n'
    (problem,) = problems(text)
    assert (
        problem
        == "two cells have the labels `x, y, z`; give the axes labels that differ @ s.toml:1 study.axes"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            'exclude = [{ sise = "small" }]',
            "there is no axis `sise`. Did you mean `size`? @ s.toml:1 study.exclude.0.sise",
        ),
        (
            'exclude = [{}, { size = "smal" }]',
            "the axis `size` has no label `smal`. Did you mean `small`? @ s.toml:1 study.exclude.1.size",
        ),
        (
            'exclude = [{ lr = ["0.1", "0.01"] }]',
            "the axis `lr` has no label `0.01`. Did you mean `0.1`? @ s.toml:1 study.exclude.0.lr",
        ),
        (
            'baseline = { size = "small", lr = "9" }',
            "the axis `lr` has no label `9`. Choose one of `0.1`, `0.2`, `0.3`. @ s.toml:1 study.baseline.lr",
        ),
        (
            'baseline = { lr = "0.1" }',
            "the baseline has no label on the axis `size`; name one of small, large "
            "@ s.toml:1 study.baseline",
        ),
    ],
)
def test_what_is_not_there_is_reported_with_a_suggestion(line, expected):
    assert problems(f"study.{line}\n{TWO}") == [expected]


# --- baseline and labels -----------------------------------------------------------------------------------


def test_the_baseline_has_a_label_on_every_axis_and_one_of_one_label_may_be_left_out():
    text = f'study.baseline = {{ size = "large", lr = "0.3" }}\n{TWO}[study.axes.only]\nx = {{}}\n'
    table, axes, _ = read(text)
    assert baseline_of(table, axes) == {"size": "large", "lr": "0.3", "only": "x"}
    assert baseline_of(read(TWO)[0], axes) is None


def test_a_study_of_more_combinations_than_can_be_run_is_refused_at_once():
    axis = '[study.axes.a{}]\npath = "p"\nvalues = ["a", "b", "c"]\n'
    (problem,) = problems("".join(map(axis.format, range(19))))
    assert problem.startswith(
        "the axes make 1,162,261,467 combinations, more than 100,000; take labels out"
    )
