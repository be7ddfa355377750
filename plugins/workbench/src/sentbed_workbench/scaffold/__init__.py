"""Scaffold of `sentbed new plugin`: the files of a distribution with one component.

The templates of the files are in `templates/KIND/` and `templates/common/`. In a template, `new-name`,
`new_name` and `NewName` stand for the name of the component, and words in braces stand for other facts.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import attrs
from sentbed.errors import PluginError, RunError
from sentbed.helpers import write_directory
from sentbed.tools import Plugins, catalog, owner_of

FILES = Path(__file__).parent / "templates"
"""Directory with the templates."""
COMMON = "common"
"""Directory with the templates that all kinds have in common."""
SUFFIX = "-tpl"
"""Suffix of the templates' file names, so that tools do not take templates for code of this distribution."""

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""Pattern of the name of a component."""


@attrs.frozen
class Template:
    """What the scaffold of a kind needs besides the templates of its files."""

    what: str
    """Name of the kind in sentences."""
    needs: tuple[str, ...]
    """Distributions that the code imports, besides sentbed and attrs."""
    tests: tuple[str, ...]
    """Distributions that the tests import, or that the test kit uses for them."""
    settings: tuple[str, ...]
    """`--set` values with which `quickstart.toml` and the recipe of `sentbed new recipe` use the component."""
    command: str = ""
    """Command that uses the component, if recipes do not name components of this kind."""
    remark: str = ""
    """Remark on a setting whose effect is not obvious."""


TORCH = "torch>=2.6"
ENGINE = ("sentbed-backbones", "sentbed-hardware", "sentbed-losses", "sentbed-poolers")
"""Distributions that the test kit needs to build an encoder with the component and to train it."""

TEMPLATES: Mapping[str, Template] = MappingProxyType(
    {
        "backbone": Template(
            "backbone",
            ("numpy>=1.26", "safetensors>=0.4", TORCH),
            ENGINE,
            ('encoder.backbone={ use = "{name}" }',),
        ),
        "intervention": Template(
            "intervention",
            (TORCH,),
            ENGINE,
            (
                'encoder.backbone={ use = "opt", init = "random", intervention = { use = "{name}" } }',
                "encoder.pooler.use=last",
            ),
        ),
        "pooler": Template("pooler", (TORCH,), ENGINE, ("encoder.pooler.use={name}",)),
        "transform": Template(
            "transform",
            ("numpy>=1.26",),
            ("sentbed-data",),
            ('encoder.head.transform={ use = "{name}", data = { use = "sample" } }',),
        ),
        "similarity": Template(
            "similarity", (), (TORCH,), ("encoder.similarity={name}",)
        ),
        "loss": Template(
            "loss",
            (TORCH,),
            ENGINE,
            ("stage.0.loss.use={name}", "stage.0.loss.temperature="),
            remark="`stage.0.loss.temperature=` takes out a field that only the recipe's own loss has.",
        ),
        "data": Template(
            "data source",
            ("sentbed-common",),
            (),
            (
                "stage.0.data.use={name}",
                "stage.0.data.path=pkg:sentbed_data/sample/sts-dev.tsv",
            ),
        ),
        "evaluator": Template(
            "evaluator", ("numpy>=1.26",), (), ("evaluate.0.use={name}",)
        ),
        "runtime": Template(
            "runtime", ("sentbed-hardware",), (*ENGINE, TORCH), ("runtime.use={name}",)
        ),
        "optimizer": Template(
            "optimizer",
            (TORCH,),
            (),
            ('stage.0.optimizer={ use = "{name}", lr = 0.1 }',),
        ),
        "schedule": Template(
            "schedule", (), (), ('stage.0.schedule={ use = "{name}" }',)
        ),
        "exporter": Template(
            "exporter",
            (),
            ("numpy>=1.26", *ENGINE),
            (),
            "sentbed export ENCODER DIRECTORY --to {name}",
        ),
        "importer": Template(
            "importer",
            (),
            ("numpy>=1.26", *ENGINE),
            (),
            "sentbed import encoder.zip DIRECTORY --from {name}",
        ),
        "executor": Template(
            "executor",
            ("sentbed-common",),
            (),
            (),
            "sentbed encode ENCODER --input corpus.txt --output vectors --executor {name}",
        ),
        "tracker": Template("tracker", (), (), ('tracker=[{ use = "{name}" }]',)),
    }
)
"""Kind -> its template."""

ENCODES = "runtime-encodes"
"""Name of the template of a runtime whose engine only encodes."""

VARIANTS: Mapping[str, Template] = MappingProxyType(
    {
        ENCODES: Template(
            "runtime",
            ("numpy>=1.26", "sentbed-hardware", TORCH),
            ENGINE,
            (),
            "sentbed encode ENCODER --input corpus.txt --output vectors --runtime {name}",
        ),
    }
)
"""Name of a directory -> a further template of a kind."""


def template_of(name: str) -> Template:
    """Return the template of a kind, or the template of `VARIANTS` with this name."""
    return VARIANTS.get(name) or TEMPLATES[name]


def require_name(
    kind: str,
    name: str,
    plugins: Plugins,
) -> None:
    """Raise `PluginError` if a new component of this kind cannot have this name. The error has the reason."""
    if not NAME.fullmatch(name):
        raise PluginError(
            f"{name!r} cannot be the name of a component; take lower-case letters and digits, a letter "
            "first, with single dashes between them, such as `weighted-mean`"
        )
    if problem := _conflict(kind, name, plugins):
        raise PluginError(f"{problem}; choose another name")


def _conflict(
    kind: str,
    name: str,
    plugins: Plugins,
) -> str | None:
    """Return why a new component cannot have this name, or None if it can."""
    if (clash := plugins.clash(kind, name)) is not None:
        return clash.partition(";")[0]
    if (kind, name) in plugins.components:
        owner = plugins.components[kind, name]
        return f"the {kind} `{name}` is offered by `{owner.distribution}` {owner.version} already"
    ours = owner_of("components", f"{kind}/{name}")
    if ours is not None:
        return f"the {kind} `{name}` belongs to `{ours}`"
    distribution = f"sentbed-{name}"
    installed = [plugin.distribution for plugin in plugins.plugins]
    if distribution in catalog() or distribution in installed:
        return f"there is a distribution `{distribution}` already"
    taken = {*keyword.kwlist, *_names_in_code(kind)}
    if kind == "runtime":
        taken |= _names_in_code(ENCODES)
    if {_module(name), _class(name)} & taken:
        return f"the module `{_module(name)}` or the class `{_class(name)}` would have a name that is taken"
    return None


def settings(template: str, name: str) -> tuple[str, ...]:
    """Return the `--set` values with which a starter recipe uses a component of this name."""
    values = template_of(template).settings
    return tuple(value.replace("{name}", name) for value in values)


def write_plugin(
    template: str,
    name: str,
    directory: Path,
) -> list[str]:
    """Write a distribution with one component into a new directory. Return the names of its files.

    `template` is a kind, or a name in `VARIANTS`.

    Raises:
        RunError: if `directory` exists or cannot be written.
    """
    if directory.exists():
        raise RunError(
            f"`{directory}` exists already; name a new directory with `--out`"
        )
    facts = template_of(template)
    words = {
        "new-name": name,
        "new_name": _module(name),
        "NewName": _class(name),
        "{kind}": facts.what,
        "{dependencies}": _listed("sentbed", "attrs>=24.2", *facts.needs),
        "{test_dependencies}": _listed("pytest>=8", "sentbed-testing", *facts.tests),
    }
    files = {}
    for path, text in _files(template):
        files[_filled(path, words)] = _filled(text, words)

    def fill(root: Path) -> None:
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")

    write_directory(directory, fill)
    return sorted(files)


def _files(template: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file of a template, before words are filled in."""
    for root in (FILES / COMMON, FILES / template):
        for path in sorted(root.rglob(f"*{SUFFIX}")):
            yield (
                path.relative_to(root).as_posix().removesuffix(SUFFIX),
                path.read_text(encoding="utf-8"),
            )


def _filled(text: str, words: Mapping[str, str]) -> str:
    """Return a text in which each word of a template is replaced by its value."""
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _listed(*requirements: str) -> str:
    """Return requirements as the elements of an array in TOML."""
    return ", ".join(f'"{requirement}"' for requirement in requirements)


def _module(name: str) -> str:
    """Return the name of the module of a component."""
    return name.replace("-", "_")


def _class(name: str) -> str:
    """Return the name of the class of a component."""
    return "".join(part.capitalize() for part in name.split("-"))


def _names_in_code(template: str) -> set[str]:
    """Return the names of modules, variables and classes in the code of a template."""
    names = set()
    for path, text in _files(template):
        if not path.endswith(".py") or path.startswith("tests/"):
            continue
        names.add(Path(path).stem)
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Name(id=word) | ast.alias(name=word) | ast.ClassDef(name=word):
                    names.add(word)
    return names - {"new_name", "NewName"}
