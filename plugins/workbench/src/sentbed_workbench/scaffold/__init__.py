"""Scaffold of `sentbed new plugin`: the files of a distribution with one component.

The templates of the files are in `templates/`: `common` for every kind, and `component` for the code, in which
the methods that the kind requires are to be written. For a pooler the code is a working example. In a template,
`new-name`, `new_name` and `NewName` stand for the name of the component, words in braces for other facts.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from sentbed.errors import PluginError, RunError
from sentbed.helpers import write_directory
from sentbed.kinds import KINDS
from sentbed.tools import Plugins, catalog, owner_of

FILES = Path(__file__).parent / "templates"
"""Directory with the templates."""
COMMON = "common"
"""Directory with the templates that all kinds have in common."""
SUFFIX = "-tpl"
"""Suffix of the templates' file names, so that tools do not take templates for code of this distribution."""

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""Pattern of the name of a component."""


EXAMPLE = "pooler"
"""Kind whose template is a working example."""
TENSOR_KINDS = ("backbone", "intervention", "loss", "optimizer", "pooler", "similarity")
"""Kinds whose contracts in `sentbed_testing` need PyTorch."""
DATA_KINDS = ("data", "evaluator")
"""Kinds whose components use what `sentbed_common` has for data sets and scores."""
COMPARED_KINDS = ("pooler", "runtime")
"""Kinds whose tests encode with components of other distributions."""


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
    for offer in plugins.offers.get((kind, name), ()):
        return f"the {kind} `{name}` is offered by `{offer.release}` already"

    ours = owner_of(kind, name)
    if ours is not None:
        return f"the {kind} `{name}` belongs to `{ours}`"

    distribution = f"sentbed-{name}"
    installed = [plugin.distribution for plugin in plugins.plugins]
    if distribution in catalog().values() or distribution in installed:
        return f"there is a distribution `{distribution}` already"

    if keyword.iskeyword(_module(name)) or keyword.iskeyword(_class(name)):
        return f"`{name}` is a word of Python"
    return None


def write_plugin(
    kind: str,
    name: str,
    directory: Path,
) -> list[str]:
    """Write a distribution with one component into a new directory. Return the names of its files.

    Raises:
        RunError: if `directory` exists or cannot be written.
    """
    if directory.exists():
        raise RunError(
            f"`{directory}` exists already; name a new directory with `--out`"
        )

    needs = ["sentbed", "attrs>=24.3"]
    test_needs = ["pytest>=8", "sentbed-testing"]
    if kind in TENSOR_KINDS:
        needs.append("torch>=2.6")
    if kind in DATA_KINDS:
        needs.append("sentbed-common")
    if kind in COMPARED_KINDS:
        test_needs += ["sentbed-backbones", "sentbed-hardware"]
        test_needs += ["sentbed-losses", "sentbed-poolers"]

    template = "component"
    if kind == EXAMPLE:
        template = EXAMPLE

    contract = f"{kind.capitalize()}Contract"
    if KINDS[kind].on_command_line:
        contract = "ComponentContract"

    words = {
        "new-name": name,
        "new_name": _module(name),
        "NewName": _class(name),
        "{kind}": kind,
        "{hook}": KINDS[kind].hook,
        "{Base}": KINDS[kind].base_name,
        "{Contract}": contract,
        "{contracts}": ", ".join(sorted([contract, "PluginContract"])),
        "{methods}": "\n\n".join(_methods(kind)),
        "{dependencies}": _listed(*needs),
        "{test_dependencies}": _listed(*test_needs),
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


def _methods(kind: str) -> Iterator[str]:
    """Yield the code of each method and property that a component of this kind must have."""
    base = KINDS[kind].base
    for name in sorted(base.__abstractmethods__):
        member = inspect.getattr_static(base, name)
        lines = []
        parameters = ["self"]

        if isinstance(member, property):
            lines.append("    @property")
        else:
            for parameter in list(inspect.signature(member).parameters)[1:]:
                parameters.append(f"{parameter}: Any")

        lines.append(f"    def {name}({', '.join(parameters)}) -> Any:")
        lines.append(f'        """See `{KINDS[kind].base_name}.{name}`."""')
        lines.append("        raise NotImplementedError")

        yield "\n".join(lines)


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
