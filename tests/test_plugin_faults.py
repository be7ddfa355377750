"""A plugin with a fault is named with its reason, and stops only the recipes that use it.

Each is a distribution as an installer leaves it, on the path of another process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from sentbed import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
QUICKSTART = "recipes/quickstart.toml"
FINE = f"{QUICKSTART}: no problems\n"
_LINE = (ROOT / QUICKSTART).read_text().splitlines().index(
    'pooler = { use = "mean" }'
) + 1
POOLER_AT = f"{QUICKSTART}:{_LINE} encoder.pooler.use"

POOLER = '''
import attrs
import sentbed.protocols
from typing import ClassVar


@attrs.frozen
class Mean(sentbed.protocols.Pooler):
    """Another mean."""

    name: ClassVar[str] = "mean"

    def build(self, width): ...


@sentbed.hookimpl
def poolers():
    return [Mean]
'''


@attrs.frozen
class Site:
    """A directory of installed packages."""

    path: Path

    def install(self, name, source):
        """Install a distribution of one module; returns the module's file."""
        module = name.replace("-", "_")
        info = self.path / f"{module}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n"
        )
        (info / "entry_points.txt").write_text(f"[sentbed]\n{module} = {module}\n")
        (info / "RECORD").write_text("")
        file = self.path / f"{module}.py"
        file.write_text(source)
        return file

    def sentbed(self, *arguments, **variables):
        """Run the command line with what is installed here; returns exit code and output."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.path),
            **variables,
        }
        code = "from sentbed._cli.main import main\nmain()"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment,
            timeout=300,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    def plugins(self):
        """Return the lines of `sentbed plugins`."""
        code, output = self.sentbed("plugins")
        assert code == 0
        return output.splitlines()


def line_and_reason(lines, plugin):
    """Return the line of a plugin, and the reason below it."""
    (at,) = (
        number for number, line in enumerate(lines) if line.startswith(f"{plugin} ")
    )
    return [" ".join(lines[at].split()), lines[at + 1].strip()]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path / "site")


def test_each_broken_plugin_is_listed_with_its_reason_and_stops_no_recipe(site):
    sources = {
        "raising": "def load():\n    raise RuntimeError('no GPU here')\n\n\nload()\n",
        "leaving": "import sys\n\nsys.exit(3)\n",
        "asked": POOLER.replace("    return [Mean]", "    return [Mean][1:][0]"),
        "misspelt": POOLER.replace("def poolers", "def poolres"),
    }
    files = {
        name: site.install(f"{name}-plugin", source) for name, source in sources.items()
    }
    reasons = {
        "raising": f"RuntimeError: no GPU here @ {files['raising']}:2",
        "leaving": f"SystemExit: 3 @ {files['leaving']}:3",
        "asked": f"IndexError: list index out of range @ {files['asked']}:18",
        "misspelt": f"there is no hook `poolres`. Did you mean `poolers`? @ {files['misspelt']}:16",
    }
    lines = site.plugins()
    for name, reason in reasons.items():
        assert line_and_reason(lines, f"{name}_plugin") == [
            f"{name}_plugin – {name}-plugin 1.2 broken",
            reason,
        ]
    assert site.sentbed("check", QUICKSTART) == (0, FINE)


@pytest.mark.slow
@pytest.mark.whole
def test_one_that_registers_mean_again(site):
    file = site.install("second-mean", POOLER)
    code, output = site.sentbed("plugins")
    assert code == 0
    clash = output.splitlines()[-1]
    claims = (
        f"the pooler `mean` is offered by `second-mean` 1.2 (second_mean, {file}) "
        f"and by `sentbed-poolers` {__version__} (sentbed_poolers.mean)"
    )
    choice = "uninstall or disable all but one"
    assert clash == f"clash: {claims}; {choice}"

    code, output = site.sentbed("check", QUICKSTART)
    assert code == 2
    assert output == f"{claims}; {choice} @ {POOLER_AT}\n"
    without = site.path / "without-mean.toml"
    without.write_text(
        (ROOT / QUICKSTART).read_text().replace('{ use = "mean" }', '{ use = "first" }')
    )
    assert site.sentbed("check", str(without)) == (0, f"{without}: no problems\n")
    assert site.sentbed("check", QUICKSTART, "--set", "encoder.pooler.use=first") == (
        0,
        FINE,
    )

    code, output = site.sentbed(
        "check", QUICKSTART, SENTBED_PLUGINS_DISABLE="second-mean"
    )
    assert (code, output) == (0, FINE)
