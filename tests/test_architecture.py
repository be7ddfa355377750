"""Every class, function, module and file that ARCHITECTURE names is in the sources."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = [ROOT / "core" / "src", *sorted(ROOT.glob("plugins/*/src"))]

CLASS = re.compile(r"[A-Z]\w*[a-z]\w*")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
SETTINGS = re.compile(r"[A-Za-z_.]+\.(json|jsonl|toml|md|html|bin|sha256|config)")
OF_OTHERS = {
    "ModelCard.from_template": "huggingface_hub",
    "NAME.old": "a directory",
    "StrictUndefined": "Jinja",
    "TTestPower": "statsmodels",
    "stage.0.loss.temperature": "a key of a recipe",
}
"""Names of others, or of no code, with what they are."""


def names_in(text):
    """Return what stands in backticks, without blocks of code."""
    without_blocks = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return sorted(set(re.findall(r"`([^`\n]+)`", without_blocks)))


def names_bound_in(node):
    """Yield the names that a module or a class gives to classes, functions, values and attributes."""
    for inner in ast.walk(node):
        match inner:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(name=name, asname=other_name):
                yield other_name or name


class Sources:
    """Modules, classes and files of all distributions."""

    def __init__(self):
        self.files = []
        self.modules = {}
        """Names bound in each module, by its dotted name."""
        self.classes = defaultdict(set)
        """Names bound in the classes of a name."""
        self.packages = set()
        for source in SOURCES:
            for path in sorted(source.rglob("*.py")):
                self._read(path, path.relative_to(source))

    def _read(self, path, place):
        self.files.append(place.as_posix())
        tree = ast.parse(path.read_text("utf-8"))
        module = ".".join(place.with_suffix("").parts).removesuffix(".__init__")
        self.modules[module] = set(names_bound_in(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self.classes[node.name].update(names_bound_in(node))

    def has_module(self, name):
        """Whether a module has this name, or this end of a name."""
        return any(
            module == name or module.endswith(f".{name}") for module in self.modules
        )

    def has(self, dotted):
        """Whether a dotted name is that of a module, or of something in a module or in a class."""
        if self.has_module(dotted):
            return True
        before, _, last = dotted.rpartition(".")
        class_name = before.rpartition(".")[2]
        if class_name in self.classes:
            owner = before.rpartition(".")[0]
            return last in self.classes[class_name] and (not owner or self.has(before))
        return any(
            last in names
            for module, names in self.modules.items()
            if module == before or module.endswith(f".{before}")
        )


@cache
def all_sources():
    """Return the sources, read once."""
    return Sources()


def stale_names(text, sources):
    """Return the names of code in a page that the sources do not have."""
    stale = []
    for written in names_in(text):
        name = written.removesuffix("()")
        if name in OF_OTHERS or SETTINGS.fullmatch(name):
            continue
        if name.endswith(".py"):
            in_sources = any(
                file == name or file.endswith(f"/{name}") for file in sources.files
            )
            if not in_sources and not (ROOT / name).is_file():
                stale.append(name)
        elif DOTTED.fullmatch(name):
            if not sources.has(name):
                stale.append(name)
        elif CLASS.fullmatch(name) and name not in sources.classes:
            stale.append(name)
    return stale


def test_architecture_names_only_what_there_is():
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert len(names_in(text)) > 100
    assert stale_names(text, all_sources()) == []
