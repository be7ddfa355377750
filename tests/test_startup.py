"""Commands that compute nothing load nothing heavy; `benchmarks/startup.py` has their times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sentbed_testing.plugin_contract import HEAVY

ROOT = Path(__file__).parent.parent
COMMANDS = {
    "help": ["--help"],
    "plugins": ["plugins"],
    "check": ["check", "recipes/quickstart.toml", "recipes/scratch.toml"],
    "show": ["show", "backbone", "bert"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_light_command_loads_no_heavy_library(name):
    code = (
        "import sys\n"
        "from sentbed._cli.main import main\n"
        f"main({COMMANDS[name]!r}, standalone_mode=False)\n"
        f"sys.exit(', '.join(m for m in {HEAVY!r} if m in sys.modules) or 0)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout


def test_check_imports_only_the_components_of_the_recipe():
    code = (
        "import sys\n"
        "from sentbed._cli.main import main\n"
        "main(['check', 'recipes/quickstart.toml'], standalone_mode=False)\n"
        "print(*(m for m in sys.modules if m.startswith('sentbed_')))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    loaded = set(answer.stdout.splitlines()[-1].split())
    assert {
        "sentbed_backbones.bert",
        "sentbed_poolers.mean",
        "sentbed_losses.info_nce",
    } <= loaded
    assert not loaded & {
        "sentbed_backbones.t5",
        "sentbed_poolers.decoder",
        "sentbed_evaluators.mteb",
    }
    assert not any(
        module.startswith(("sentbed_interop.", "sentbed_studies.s"))
        for module in loaded
    )


def test_importing_sentbed_loads_no_heavy_library():
    code = f"import sentbed, sys; sys.exit(', '.join(m for m in {HEAVY!r} if m in sys.modules) or 0)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def test_loading_and_checking_every_recipe_loads_no_heavy_library():
    code = (
        "import sys, tomllib\n"
        "from pathlib import Path\n"
        "from sentbed.tools import load_plugins, load_recipe\n"
        "plugins = load_plugins()\n"
        "for path in Path('recipes').rglob('*.toml'):\n"
        "    if 'schema' in tomllib.loads(path.read_text('utf-8')):\n"
        "        load_recipe(path, check_files=False, plugins=plugins)\n"
        f"print(*(m for m in {HEAVY!r} if m in sys.modules))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "\n", "")
