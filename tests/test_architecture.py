"""Every class, function, module and file that ARCHITECTURE names is in the sources."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+(\(\))?|[A-Z]\w*[a-z]\w*|[a-z]+_\w+")
"""What looks like a dotted name, a class, or a module or function of several words."""
OF_OTHERS = {
    "TTestPower",
    "mine_hard_negatives",
    "stage.0.loss.temperature",
}
"""Names of other libraries, and keys of recipes."""
FILES = (".json", ".jsonl", ".toml", ".md", ".html", ".bin")


def names_in(text):
    """Return what looks like code and stands in backticks, without blocks of code."""
    without_blocks = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    quoted = set(re.findall(r"`([^`\n]+)`", without_blocks)) - OF_OTHERS
    return sorted(name for name in quoted if CODE.fullmatch(name))


def test_architecture_names_only_what_there_is():
    sources = [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    words = set()
    for path in (*sources, *ROOT.glob("tests/**/*.py")):
        words.update(path.relative_to(ROOT).with_suffix("").parts)
    for path in sources:
        words.update(re.findall(r"\w+", path.read_text("utf-8")))

    names = names_in((ROOT / "ARCHITECTURE.md").read_text("utf-8"))
    assert len(names) > 100
    stale = []
    for name in names:
        parts = name.removesuffix("()").removesuffix(".py").split(".")
        if not name.endswith(FILES) and not words.issuperset(parts):
            stale.append(name)
    assert stale == []
