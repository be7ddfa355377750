"""A plugin with a fault is named with its reason, and stops only the recipes that use it.

Each is a distribution as an installer leaves it, on the path of another process.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import attrs
import pytest
from sentbed import API_VERSION, __version__

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
    """A directory of installed packages, and a user's configuration beside it."""

    path: Path

    def install(self, name, source, *requirements):
        """Install a distribution of one module; returns the module's file."""
        module = name.replace("-", "_")
        info = self.path / f"{module}-1.2.dist-info"
        info.mkdir(parents=True)
        requirement_lines = "".join(
            f"Requires-Dist: {requirement}\n" for requirement in requirements
        )
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n{requirement_lines}"
        )
        (info / "entry_points.txt").write_text(f"[sentbed]\n{module} = {module}\n")
        (info / "RECORD").write_text("")
        file = self.path / f"{module}.py"
        file.write_text(source)
        return file

    @property
    def config(self):
        """The user's configuration."""
        return self.path / "config" / "sentbed" / "config.toml"

    def configure(self, text):
        """Write the user's configuration."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(dedent(text))

    def sentbed(self, *arguments, **variables):
        """Run the command line with what is installed here; returns exit code and output."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.path),
            "XDG_CONFIG_HOME": str(self.path / "config"),
            **variables,
        }
        environment.pop("SENTBED_CONFIG")
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

    def said_of(self, plugin):
        """Return what `sentbed plugins` says of a plugin: its line, and the reason below."""
        return line_and_reason(self.plugins(), plugin)


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
    early = site.install(
        "early-plugin", "from sentbed import tomorrow\n", "sentbed>=0.9", "attrs"
    )
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
    line, reason = line_and_reason(lines, "early_plugin")
    assert line.endswith(" broken")
    assert reason.startswith(
        "ImportError: cannot import name 'tomorrow' from 'sentbed'"
    )
    assert reason.endswith(
        f"; it asks for sentbed>=0.9, and this is sentbed {__version__}: install the sentbed that it asks "
        f"for, or another release of `early-plugin` @ {early}:1"
    )
    assert site.sentbed("check", QUICKSTART) == (0, FINE)


def test_plugins_for_a_newer_api_are_refused(site):
    reasons = {}
    for name, api in (("major", "4.0"), ("minor", "3.99")):
        pooler = POOLER.replace('"mean"', f'"{name}"')
        site.install(f"{name}-plugin", f'sentbed_api = "{api}"\n{pooler}')
        reasons[name] = (
            f"it is made for API {api} of sentbed, and sentbed {__version__} has API {API_VERSION}; "
            "upgrade sentbed (`pip install --upgrade sentbed`), or get a release of "
            f"`{name}-plugin` for API 3"
        )
    lines = site.plugins()
    for name, reason in reasons.items():
        assert line_and_reason(lines, f"{name}_plugin") == [
            f"{name}_plugin – {name}-plugin 1.2 refused",
            reason,
        ]
    assert site.sentbed("check", QUICKSTART) == (0, FINE)
    code, output = site.sentbed(
        "check", QUICKSTART, "--set", "encoder.pooler.use=major"
    )
    assert code == 2
    assert (
        f"the pooler `major` belongs to `major-plugin`, which is refused: {reasons['major']}"
        in output
    )


BUSY = "import time\n\nend = time.process_time() + 0.7\nwhile time.process_time() < end:\n    pass\n"


def test_one_that_is_slow_to_import_is_named_with_its_seconds_and_libraries(
    site,
):
    site.install("quick-plugin", POOLER.replace('"mean"', '"quick"'))
    site.install("slow-plugin", BUSY + POOLER.replace('"mean"', '"slow"'))
    # Stands for the library, which takes longer.
    (site.path / "torch.py").write_text("")
    site.install("heavy-plugin", "import torch\n" + POOLER.replace('"mean"', '"heavy"'))
    lines = site.plugins()
    line, reason = line_and_reason(lines, "slow_plugin")
    assert line.endswith(" loaded")
    assert re.fullmatch(
        r"takes 0\.[789] s to import; import what is heavy where it is used", reason
    )
    _, reason = line_and_reason(lines, "heavy_plugin")
    assert re.fullmatch(
        r"takes \d\.\d s to import and loads `torch` at module level; import what is heavy where it is used",
        reason,
    )
    code, output = site.sentbed("plugins", "--json")
    listed = {
        plugin["distribution"]: plugin["slow"]
        for plugin in json.loads(output)["plugins"]
    }
    assert (listed["quick-plugin"], code) == (None, 0)
    code, output = site.sentbed("check", QUICKSTART)
    first, *hints = output.splitlines()
    assert (code, f"{first}\n") == (0, FINE)
    assert [hint.partition(" takes ")[0] for hint in hints] == [
        "hint: the plugin `heavy_plugin` of `heavy-plugin` 1.2",
        "hint: the plugin `slow_plugin` of `slow-plugin` 1.2",
    ]


@pytest.mark.slow
def test_a_component_that_is_slow_to_import_is_named_where_a_recipe_uses_it(
    site,
):
    lazy = "import sentbed\nfrom sentbed.protocols import Lazy\n\n\n@sentbed.hookimpl\ndef poolers():\n"
    lazy += "    return {'late': Lazy('late_part:Mean', 'Another mean.')}\n"
    site.install("late-plugin", lazy)
    source = BUSY + POOLER.replace('"mean"', '"late"')
    (site.path / "late_part.py").write_text(source)
    assert site.sentbed("check", QUICKSTART) == (0, FINE)
    code, output = site.sentbed("check", QUICKSTART, "--set", "encoder.pooler.use=late")
    assert code == 0
    assert output.startswith(
        f"{FINE}hint: the pooler `late` of `late-plugin` 1.2 takes 0."
    )


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
    choice = (
        f"choose one in `[plugins]` of `{site.config}`: "
        '`prefer = { "pooler/mean" = "second-mean" }`, or disable or uninstall the other'
    )
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

    site.configure('[plugins]\nprefer = { "pooler/mean" = "sentbed-poolers" }\n')
    assert site.sentbed("check", QUICKSTART) == (0, FINE)
    code, output = site.sentbed("plugins")
    assert (
        output.splitlines()[-1]
        == f"chosen: {claims}; {site.config}:2 prefers `sentbed-poolers`"
    )

    site.configure('[plugins]\ndisable = ["second-mean"]\n')
    assert site.sentbed("check", QUICKSTART) == (0, FINE)
    assert (
        site.said_of("second_mean")[1]
        == f"disabled by {site.config}:2; take it out there"
    )


@pytest.mark.slow
def test_with_all_of_them_installed_another_recipe_still_runs(site, tmp_path):
    site.install("raising-plugin", "raise RuntimeError('no GPU here')\n")
    site.install("misspelt-plugin", POOLER.replace("def poolers", "def poolres"))
    site.install("newer-plugin", 'sentbed_api = "4.0"\n')
    site.install("second-mean", POOLER)
    short = [
        "encoder.pooler.use=first",
        "stage.0.epochs=",
        "stage.0.steps=1",
        "stage.0.validate=",
    ]
    settings = [word for setting in short for word in ("--set", setting)]
    code, output = site.sentbed(
        "run", "recipes/scratch.toml", "--out", str(tmp_path / "run"), *settings
    )
    assert code == 0
    assert str(tmp_path / "run" / "report.html") in output.splitlines()
    listed = json.loads((tmp_path / "run" / "manifest.json").read_text())["plugins"]
    status = {plugin["distribution"]: plugin["status"] for plugin in listed}
    assert [status[f"{name}-plugin"] for name in ("raising", "misspelt", "newer")] == [
        "broken",
        "broken",
        "refused",
    ]
    assert status["sentbed-poolers"] == status["second-mean"] == "loaded"


def test_ours_disabled_in_favour_of_it(site):
    site.install("second-mean", POOLER)
    code, output = site.sentbed(
        "show", "pooler", "mean", SENTBED_PLUGINS_DISABLE="sentbed-poolers"
    )
    assert code == 0
    assert output.startswith("pooler mean  (second-mean 1.2)\n")


def test_a_disabled_part_of_a_recipe_says_where_it_is_disabled(site):
    site.configure(
        """
        [plugins]
        disable = ["sentbed-poolers"]
        """
    )
    code, output = site.sentbed("check", QUICKSTART)
    assert code == 2
    assert output == (
        f"the pooler `mean` belongs to `sentbed-poolers`, which is disabled by {site.config}:3; "
        f"take it out there @ {POOLER_AT}\n"
    )
    assert site.sentbed("check", QUICKSTART, SENTBED_PLUGINS_DISABLE="") == (0, FINE)


def test_a_misspelt_configuration_is_a_message_with_its_line(site):
    site.configure('[plugins]\ndisabel = ["x"]\n')
    code, output = site.sentbed("check", QUICKSTART)
    assert code == 1
    assert output == (
        "error: 1 problem in the configuration:\n"
        f"  unknown key `disabel`. Did you mean `disable`? @ {site.config}:2 plugins.disabel\n"
    )
