"""Hold the code to how it is written: one thought a line, and names that say what they hold.

    python tools/style_check.py            # fails where a room is above one of its ceilings
    python tools/style_check.py --lower    # writes the ceilings that have fallen

A room is the code of a distribution, a directory of tests, `tools` or `benchmarks`. `style_ceilings.toml` has a
table for each room with a ceiling for each figure. Ceilings only fall: `--lower` never raises one, and one that
is written by hand needs a reason in the change that raises it. A room without a table has the figures of `GOALS`.

| figure | counts |
| --- | --- |
| `nodes-a-line` | nodes of the syntax tree by lines, docstrings left out |
| `vague-names` | names that say nothing of what they hold (`VAGUE`), in 1,000 lines |
| `comprehensions` | comprehensions and generator expressions, in 1,000 lines |
| `conditional-expressions` | in 1,000 lines |
| `statement-nodes` | nodes that nine in ten simple statements have at most |
| `long-statements` | simple statements of more than 40 nodes |
| `nested-comprehensions` | comprehensions within another, and those with two conditions |
| `nested-conditionals` | conditional expressions within a call, a comprehension or another |
| `truth-arithmetic` | sums and products with a comparison or a `not` |
| `walruses` | assignments in an expression that is not the condition of a guard or a loop |
"""

from __future__ import annotations

import argparse
import ast
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
CEILINGS = Path(__file__).with_name("style_ceilings.toml")

VAGUE = frozenset(
    {"agreed", "asked", "found", "given", "held", "here", "known", "look"}
)
VAGUE |= {"lost", "made", "one", "own", "said", "some", "told", "wanted"}

GOALS: Mapping[str, float] = {
    "nodes-a-line": 4.8,
    "vague-names": 2,
    "comprehensions": 15,
    "conditional-expressions": 8,
    "statement-nodes": 23,
    "long-statements": 0,
    "nested-comprehensions": 0,
    "nested-conditionals": 0,
    "truth-arithmetic": 0,
    "walruses": 0,
}

LONG_STATEMENT = 40

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

SIMPLE_STATEMENTS = (
    ast.AnnAssign,
    ast.Assert,
    ast.Assign,
    ast.AugAssign,
    ast.Expr,
    ast.Raise,
    ast.Return,
)


class Module:
    """The syntax tree of a file, without its docstrings."""

    def __init__(self, path: Path) -> None:
        text = path.read_text("utf-8")
        self.path = path
        self.lines = text.count("\n")
        self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    def nodes(self) -> Iterator[ast.AST]:
        """Yield every node that is not a part of a docstring."""
        for node in ast.walk(self.tree):
            if not is_docstring(node) and not is_docstring(self.parents.get(node)):
                yield node

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node stands in, up to its statement."""
        while not isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            node = self.parents[node]
            yield node


def is_docstring(node: ast.AST | None) -> bool:
    """Say whether a statement is a string alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def is_truth_value(node: ast.expr) -> bool:
    """Say whether an expression is a comparison or a negation."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)

    return isinstance(node, ast.Compare)


def names_of(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node gives or reads."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name.strip("_")
        case ast.Name(id=name) | ast.arg(arg=name):
            yield name


def broken_rules(module: Module, node: ast.AST) -> Iterator[str]:
    """Yield the figures that count places and count this one."""
    match node:
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            conditions = sum(len(loop.ifs) for loop in node.generators)
            within = any(isinstance(n, COMPREHENSIONS) for n in module.around(node))
            if within or conditions > 1:
                yield "nested-comprehensions"

        case ast.IfExp():
            holders = (ast.Call, ast.IfExp, *COMPREHENSIONS)
            if any(isinstance(n, holders) for n in module.around(node)):
                yield "nested-conditionals"

        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            if is_truth_value(left) or is_truth_value(right):
                yield "truth-arithmetic"

        case ast.AugAssign(op=ast.Add() | ast.Sub() | ast.Mult(), value=value):
            if is_truth_value(value):
                yield "truth-arithmetic"

        case ast.NamedExpr():
            around = list(module.around(node))
            in_comprehension = any(isinstance(n, COMPREHENSIONS) for n in around)
            if in_comprehension or not isinstance(around[-1], ast.If | ast.While):
                yield "walruses"


class Figures:
    """The figures of a room, and the places that its rules count."""

    def __init__(self) -> None:
        self.lines = 0
        self.nodes = 0
        self.vague_names = 0
        self.comprehensions = 0
        self.conditional_expressions = 0
        self.statement_nodes: list[int] = []
        self.places: dict[str, list[str]] = {}

    def add(self, module: Module) -> None:
        """Count a module."""
        self.lines += module.lines
        for node in module.nodes():
            self.nodes += 1
            for name in names_of(node):
                self.vague_names += name in VAGUE
            self.comprehensions += isinstance(node, COMPREHENSIONS)
            self.conditional_expressions += isinstance(node, ast.IfExp)
            if isinstance(node, SIMPLE_STATEMENTS):
                size = sum(1 for _ in ast.walk(node))
                self.statement_nodes.append(size)
                if size > LONG_STATEMENT:
                    self.note("long-statements", module, node)
            for figure in broken_rules(module, node):
                self.note(figure, module, node)

    def note(self, figure: str, module: Module, node: ast.AST) -> None:
        """Add a place to those that a rule counts."""
        line = getattr(node, "lineno", 0)
        self.places.setdefault(figure, []).append(f"{module.path}:{line}")

    def values(self) -> dict[str, float]:
        """Return every figure, those in 1,000 lines rounded up to a tenth."""
        thousands = max(self.lines, 1) / 1000
        nodes = sorted(self.statement_nodes) or [0]
        values = {
            "nodes-a-line": rounded_up(self.nodes / max(self.lines, 1)),
            "vague-names": rounded_up(self.vague_names / thousands),
            "comprehensions": rounded_up(self.comprehensions / thousands),
            "conditional-expressions": rounded_up(
                self.conditional_expressions / thousands
            ),
            "statement-nodes": nodes[int(0.9 * len(nodes))],
        }
        for figure in GOALS:
            values.setdefault(figure, len(self.places.get(figure, [])))
        return values


def rounded_up(number: float) -> float:
    """Return a number with one digit behind the point, never a smaller one."""
    return math.ceil(number * 10) / 10


def rooms(root: Path) -> dict[str, Path]:
    """Return the directory of each room by its name.

    The name of a distribution's code is the directory of the distribution, such as `plugins/data`; that of other
    rooms is their own directory.
    """
    sources = [*sorted(root.glob("*/src")), *sorted(root.glob("plugins/*/src"))]
    directories = {path.parent.relative_to(root).as_posix(): path for path in sources}

    tests = [*sorted(root.glob("*/tests")), *sorted(root.glob("plugins/*/tests"))]
    for path in (*tests, root / "tests", root / "tools", root / "benchmarks"):
        directories[path.relative_to(root).as_posix()] = path
    return directories


def measure(root: Path) -> dict[str, Figures]:
    """Return the figures of each room."""
    figures: dict[str, Figures] = {}
    for name, source in rooms(root).items():
        figures[name] = Figures()
        for path in sorted(source.rglob("*.py")):
            figures[name].add(Module(path))
    return figures


def problems(
    measured: Mapping[str, Figures], ceilings: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    """Yield what is above a ceiling, with the places if they are counted."""
    for name, figures in measured.items():
        allowed = ceilings.get(name, GOALS)
        for figure, value in figures.values().items():
            if value <= allowed[figure]:
                continue
            yield f"{name}: {figure} is {value:g}, above its ceiling {allowed[figure]:g}"
            for place in figures.places.get(figure, []):
                yield f"    {place}"


def lowered(
    measured: Mapping[str, Figures], ceilings: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Return the ceilings of each room, lower where its figures are."""
    tables: dict[str, dict[str, float]] = {}
    for name, figures in measured.items():
        values = figures.values()
        allowed = ceilings.get(name, values)
        tables[name] = {}
        for figure, goal in GOALS.items():
            # Below the goal nothing is gained by another step down.
            reached = max(values[figure], goal)
            tables[name][figure] = min(reached, max(allowed[figure], goal))
    return tables


def read_ceilings() -> dict[str, dict[str, float]]:
    """Return the ceilings of each room by its directory."""
    if not CEILINGS.exists():
        return {}

    return tomllib.loads(CEILINGS.read_text("utf-8"))


def write_ceilings(tables: Mapping[str, Mapping[str, float]]) -> None:
    """Write the ceilings of each room."""
    lines = [
        "# Of each room, the most that a figure of `style_check.py` may be.",
        "# `python tools/style_check.py --lower` writes those that have fallen; none rises.",
    ]
    for name, ceilings in tables.items():
        lines += ["", f'["{name}"]']
        lines += [f"{figure} = {value:g}" for figure, value in ceilings.items()]
    CEILINGS.write_text("\n".join(lines) + "\n", "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Check the ceilings, or lower them; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lower", action="store_true", help="write what has fallen")
    options = parser.parse_args(arguments)

    measured = measure(ROOT)
    ceilings = read_ceilings()

    if options.lower:
        ceilings = lowered(measured, ceilings)
        write_ceilings(ceilings)

    lines = list(problems(measured, ceilings))
    for line in lines:
        print(line)
    if lines:
        print("Write these out, one thought a line (CONTRIBUTING.md).")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
