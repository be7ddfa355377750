"""What `sentbed new plugin` writes; `tests/test_scaffold_alone.py` installs it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
import tomli
from click.testing import CliRunner
from sentbed._cli import main as cli
from sentbed._document.structuring import unstructure
from sentbed._recipe.load import load_recipe
from sentbed._registry.registry import load_plugins
from sentbed.kinds import KINDS
from sentbed_workbench.recipe_template import RECIPE_TEMPLATE
from sentbed_workbench.scaffold import TEMPLATES, VARIANTS, settings, write_plugin
from toy_fixtures import write_distribution

SLOW_RULES = "not keeps_every_rule and not computes_what"
"""What of the tests that are written takes longer than some seconds, in the kinds with tensors."""

ROOT = Path(__file__).parents[3]

WITHOUT_TENSORS = {
    "data",
    "evaluator",
    "executor",
    "schedule",
    "tracker",
    "transform",
}

EVERY = [*TEMPLATES, *VARIANTS]
"""The templates of all kinds, and their variants."""


def in_module(template):
    """Return the name of a template as part of a module's."""
    return template.replace("-", "_")


IN_RECIPES = [kind for kind, template in TEMPLATES.items() if template.settings]


def new(*words):
    return CliRunner().invoke(cli.main, ["new", "plugin", *map(str, words)])


def run(*words, cwd, path="src"):
    environment = {**os.environ, "PYTHONPATH": path, "MYPYPATH": path}
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A directory with a plugin of each kind, `KIND/`."""
    root = tmp_path_factory.mktemp("plugins")
    for kind in EVERY:
        write_plugin(kind, f"my-{kind}", root / kind)
    return root


# --- what is written ---------------------------------------------------------------------------------------


def test_there_is_a_template_for_every_kind():
    assert set(TEMPLATES) == set(KINDS)


@pytest.mark.parametrize("kind", EVERY)
def test_a_distribution_is_complete(kind, written):
    project = tomli.loads((written / kind / "pyproject.toml").read_text())["project"]
    assert project["name"] == f"sentbed-my-{kind}"
    assert project["entry-points"]["sentbed"] == {
        f"my-{kind}": f"sentbed_my_{in_module(kind)}"
    }
    package = written / kind / "src" / f"sentbed_my_{in_module(kind)}"
    assert (
        f"def {KINDS[kind.removesuffix('-encodes')].hook}()"
        in (package / "__init__.py").read_text()
    )
    assert (
        f'name: ClassVar[str] = "my-{kind}"'
        in (package / f"my_{in_module(kind)}.py").read_text()
    )
    files = (
        ".gitignore",
        "README.md",
        "LICENSE",
        ".github/workflows/test.yml",
        f"tests/test_my_{in_module(kind)}.py",
        f"src/sentbed_my_{in_module(kind)}/py.typed",
    )
    for name in files:
        assert (written / kind / name).is_file()


def test_torch_is_pinned_as_it_is_here(written):
    ours = (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
    (pinned,) = [line for line in ours if line.startswith("torch==")]
    for kind in EVERY:
        assert pinned in (written / kind / "constraints.txt").read_text().splitlines()
        workflow = (written / kind / ".github" / "workflows" / "test.yml").read_text()
        assert "pip install -c constraints.txt -e '.[test]'" in workflow


@pytest.mark.parametrize("kind", EVERY)
def test_its_tests_hold_the_whole_plugin_to_its_rules(kind, written):
    source = (written / kind / "tests" / f"test_my_{in_module(kind)}.py").read_text()
    assert f'plugin_rules("sentbed-my-{kind}"' in source
    assert "must_run=True" in source


@pytest.mark.parametrize("kind", EVERY)
def test_no_word_of_a_template_is_left(kind, written):
    files = [path for path in (written / kind).rglob("*") if path.is_file()]
    assert len(files) > 6
    for path in files:
        text = f"{path.relative_to(written)}\n{path.read_text()}"
        assert not [
            word
            for word in ("new-name", "new_name", "NewName", "-tpl", "{kind}")
            if word in text
        ]


@pytest.mark.parametrize("kind", EVERY)
def test_no_class_has_a_doubled_ending(kind, written):
    ending = kind.capitalize()
    for path in (written / kind / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (
                isinstance(node, ast.ClassDef) and node.name.endswith(ending * 2)
            )


@pytest.mark.parametrize("kind", EVERY)
def test_code_and_readme_say_first_where_a_field_stands(kind, written):
    module = (
        written
        / kind
        / "src"
        / f"sentbed_my_{in_module(kind)}"
        / f"my_{in_module(kind)}.py"
    )
    docstring = ast.get_docstring(ast.parse(module.read_text())) or ""
    assert ("`_torch.py`" in docstring) == (module.parent / "_torch.py").exists()
    assert "`README.md` and in `tests/`" in docstring
    first = (written / kind / "README.md").read_text().partition("\n")[0]
    assert first.startswith("<!-- ")
    assert first.endswith("here, in `src/` and in `tests/`. -->")


@pytest.mark.parametrize("kind", EVERY)
def test_what_is_imported_is_required(kind, written):
    requirements = tomli.loads((written / kind / "pyproject.toml").read_text())[
        "project"
    ]["dependencies"]
    named = {
        requirement.partition(">")[0].replace("-", "_") for requirement in requirements
    }
    package = written / kind / "src" / f"sentbed_my_{in_module(kind)}"
    imported = set()
    for path in package.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case (
                    ast.Import(names=[ast.alias(name=module)])
                    | ast.ImportFrom(module=str(module))
                ):
                    imported.add(module.partition(".")[0])
    # An engine on JAX brings `optax`.
    assert imported - sys.stdlib_module_names - {package.name, "optax"} == named


def test_the_code_passes_ruff(written):
    run(
        "ruff", "check", "--no-cache", "--config", "line-length = 110", ".", cwd=written
    )
    for kind in EVERY:
        run(
            "ruff",
            "check",
            "--no-cache",
            "--extend-select",
            "E,I,RUF",
            ".",
            cwd=written / kind,
        )
        run("ruff", "format", "--no-cache", "--check", ".", cwd=written / kind)


@pytest.mark.slow
def test_the_code_passes_mypy(written):
    sources = [written / kind / "src" for kind in EVERY]
    tests = [path for kind in EVERY for path in (written / kind / "tests").glob("*.py")]
    path = os.pathsep.join(map(str, sources))
    # What it knows of torch is kept from one time to the next.
    cache = ROOT / ".mypy_cache" / "scaffold"
    run(
        "mypy",
        "--strict",
        "--cache-dir",
        cache,
        *sources,
        *tests,
        cwd=written,
        path=path,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY)
def test_its_tests_pass(kind, written):
    chosen = "" if kind in WITHOUT_TENSORS else SLOW_RULES
    # As `pip install` would leave it.
    write_distribution(
        written / kind / "site",
        f"sentbed-my-{kind}",
        {f"my-{kind}": f"sentbed_my_{in_module(kind)}"},
    )
    path = os.pathsep.join(("src", "site"))
    run(
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-k",
        chosen,
        cwd=written / kind,
        path=path,
    )


# --- the command -------------------------------------------------------------------------------------------


def test_the_help_names_every_kind():
    text = new("--help").stdout
    assert [kind for kind in TEMPLATES if kind not in text] == []


def test_the_files_and_the_next_commands_are_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = new("loss", "far")
    assert done.exit_code == 0
    files, _, commands = done.stdout.partition("\n\nThen:\n")
    assert sorted(files.splitlines()) == sorted(
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if path.is_file()
    )
    assert "sentbed-far/src/sentbed_far/far.py" in files
    assert commands.splitlines() == [
        "  pip install -c sentbed-far/constraints.txt -e 'sentbed-far[test]'",
        "  pytest sentbed-far",
        "  sentbed new recipe mine.toml",
        "  sentbed run mine.toml --set stage.0.loss.use=far --set stage.0.loss.temperature=",
        "",
        "`stage.0.loss.temperature=` takes out a field that only the recipe's own loss has.",
    ]


def test_a_runtime_that_only_encodes_has_a_template_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = new("runtime", "far", "--encodes")
    assert "sentbed-far/src/sentbed_far/_torch.py" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert (
        last
        == "  sentbed encode ENCODER --input corpus.txt --output vectors --runtime far"
    )
    assert (
        "untrainable="
        in (tmp_path / "sentbed-far" / "src" / "sentbed_far" / "far.py").read_text()
    )


def test_no_other_kind_has_that_template(tmp_path):
    done = new("pooler", "far", "--encodes", "--out", tmp_path / "far")
    assert done.exit_code == 2
    assert (
        "`--encodes` is for a `runtime`, and not for a `pooler`; leave it out"
        in done.stderr
    )
    assert new("runtime", "graph-engine", "--out", tmp_path / "far").exit_code == 1


def test_in_a_clone_the_recipe_is_the_one_that_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = new("pooler", "far", "--out", tmp_path / "far").stdout.splitlines()[-3:]
    assert commands[1:] == [
        f"  pytest {tmp_path / 'far'}",
        "  sentbed run recipes/quickstart.toml --set encoder.pooler.use=far",
    ]


@pytest.mark.parametrize("kind", [kind for kind in TEMPLATES if kind not in IN_RECIPES])
def test_of_a_kind_that_no_recipe_names_the_command_is_printed(
    kind, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    last = new(kind, "far").stdout.splitlines()[-1].split()
    assert last[0] == "sentbed"
    assert cli.main.get_command(
        cli.main.make_context("sentbed", ["--help"], resilient_parsing=True), last[1]
    )
    options = {
        "exporter": "--to far",
        "importer": "--from far",
        "executor": "--executor far",
    }
    assert last[-2:] == options[kind].split()


@pytest.mark.parametrize("kind", IN_RECIPES)
def test_the_settings_fit_the_template_of_a_recipe_and_the_quickstart(
    kind, written, monkeypatch, tmp_path
):
    template = tmp_path / "mine.toml"
    template.write_text(RECIPE_TEMPLATE)
    monkeypatch.syspath_prepend(written / kind / "src")
    name = f"my-{kind}"
    point = EntryPoint(name, f"sentbed_my_{in_module(kind)}", "sentbed")
    plugins = load_plugins([*entry_points(group="sentbed"), point])
    for recipe in (template, ROOT / "recipes" / "quickstart.toml"):
        loaded = load_recipe(recipe, settings(kind, name), plugins, check_files=False)
        assert f'"use": "{name}"' in json.dumps(unstructure(loaded))


def test_a_directory_with_a_space_is_quoted(tmp_path):
    place = tmp_path / "a plugin"
    assert f"  pytest '{place}'\n" in new("tracker", "steps", "--out", place).stdout


def test_a_directory_that_exists_is_left_alone(tmp_path):
    done = new("pooler", "late", "--out", tmp_path)
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert (
        done.stderr
        == f"error: `{tmp_path}` exists already; name a new directory with `--out`\n"
    )


@pytest.mark.parametrize(
    ("kind", "hint"), [("poler", "Did you mean `pooler`?"), ("table", "Choose one of")]
)
def test_other_kinds_are_refused_with_those_that_there_are(kind, hint, tmp_path):
    done = new(kind, "mine", "--out", tmp_path / "new")
    assert done.exit_code == 2
    assert f"there is no template for the kind `{kind}`" in done.stderr
    assert hint in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "name",
    ["Mean", "my_mean", "2mean", "-mean", "mean-", "my--mean", "", "über", "a/b"],
)
def test_what_is_no_name_is_refused(name, tmp_path):
    done = new("pooler", "--out", tmp_path / "new", "--", name)
    assert done.exit_code == 1
    assert f"error: {name!r} cannot be the name of a component" in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("pooler", "mean", "the pooler `mean` is offered by `sentbed-poolers`"),
        ("backbone", "losses", "there is a distribution `sentbed-losses` already"),
        (
            "pooler",
            "class",
            "the module `class` or the class `Class` would have a name that is taken",
        ),
        ("loss", "true", "the module `true` or the class `True`"),
        ("pooler", "module", "the class `Module`"),
        ("backbone", "tokenizer", "the module `tokenizer`"),
    ],
)
def test_a_name_that_is_taken_is_refused_with_whose_it_is(kind, name, reason, tmp_path):
    done = new(kind, name, "--out", tmp_path / "new")
    assert done.exit_code == 1
    assert reason in done.stderr
    assert "choose another name" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_name_of_ours_is_refused_where_it_is_not_installed(tmp_path):
    from sentbed.errors import PluginError
    from sentbed_workbench.scaffold import require_name

    with pytest.raises(
        PluginError, match="the loss `queue` belongs to `sentbed-losses`"
    ):
        require_name("loss", "queue", load_plugins([]))
    require_name("pooler", "queue", load_plugins([]))
