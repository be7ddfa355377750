from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution

import pytest
from click.testing import CliRunner
from sentbed._cli import main as cli
from sentbed_common import Finding, Trial
from sentbed_workbench import doctor
from sentbed_workbench.doctor import Diagnosis

WORKBENCH = distribution("sentbed-workbench").entry_points.select(group="sentbed")
LONG = "a word after another " * 12


def fail():
    raise AssertionError("tried")


FOUND = Diagnosis(
    (
        Finding("runtimes", "cpu", "yes", "torch [2.6]"),
        Finding(
            "runtimes",
            "cuda",
            "no",
            "no device",
            "`pip install --index-url https://download/cuNNN`",
        ),
        Finding("precisions", "cpu bf16", "limited", LONG.strip()),
        Trial("hub", "model hub", "yes", "not asked", attempt=fail),
    ),
    (),
    ("model hub",),
)


@pytest.fixture
def show(monkeypatch):
    """Run the command on a diagnosis; `attempts` collects the `attempt` of each call of `examine`."""

    def run(
        *arguments,
        diagnosis=FOUND,
        attempts=None,
        **variables,
    ):
        monkeypatch.setattr(
            doctor,
            "examine",
            lambda a: ([] if attempts is None else attempts).append(a) or diagnosis,
        )
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return CliRunner().invoke(cli.main, ["doctor", *arguments])

    return run


def test_findings_stand_under_their_area_with_the_remedy_below(
    show,
):
    result = show()
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "runtimes",
        "  yes      cpu        torch [2.6]",
        "  no       cuda       no device",
        "           -> `pip install --index-url https://download/cuNNN`",
        "",
        "precisions",
        f"  limited  cpu bf16   {LONG.strip()}",
        "",
        "hub",
        "  yes      model hub  not asked",
        "",
        "not tried: model hub; `sentbed doctor --try` does",
    ]


def test_on_a_terminal_details_are_wrapped_and_commands_are_not(
    show,
):
    result = show(FORCE_COLOR="1", COLUMNS="60", TERM="xterm")
    lines = result.output.splitlines()
    assert all(len(line) <= 60 for line in lines if "pip install" not in line)
    wrapped = [line for line in lines if "word after" in line]
    assert len(wrapped) > 3
    assert all(line.startswith(" " * 22) for line in wrapped[1:])
    assert (
        sum(
            "`pip install --index-url https://download/cuNNN`" in line for line in lines
        )
        == 1
    )


def test_json_has_every_finding_with_its_fields(show):
    diagnosis = json.loads(show("--json").output)
    assert set(diagnosis) == {"findings", "broken", "untried"}
    assert (diagnosis["broken"], diagnosis["untried"]) == ([], ["model hub"])
    assert diagnosis["findings"][1] == {
        "area": "runtimes",
        "what": "cuda",
        "status": "no",
        "detail": "no device",
        "remedy": "`pip install --index-url https://download/cuNNN`",
    }
    assert [list(finding) for finding in diagnosis["findings"]] == [
        list(diagnosis["findings"][1])
    ] * 4


def test_nothing_is_tried_without_being_asked_to(show):
    attempts = []
    show(attempts=attempts)
    show("--try", attempts=attempts)
    assert attempts == [False, True]


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_only_a_broken_plugin_is_a_failure(show, arguments):
    missing = Diagnosis((Finding("runtimes", "cpu", "no"),), (), ())
    assert show(*arguments, diagnosis=missing).exit_code == 0
    broken = Diagnosis(missing.findings, ("made-up:bad",), ())
    result = show(*arguments, diagnosis=broken)
    assert result.exit_code == 1
    assert ("made-up:bad" in result.output) == bool(arguments)


def test_the_command_finds_a_plugin_that_raises(
    distribute,
    monkeypatch,
):
    source = "import sentbed\n\n@sentbed.hookimpl\ndef findings():\n    raise ValueError('a broken driver')\n"
    points = [*distribute("made-up", {"bad": source}), *WORKBENCH]
    monkeypatch.setattr("sentbed._registry.registry.entry_points", lambda group: points)
    result = CliRunner().invoke(cli.main, ["doctor"])
    assert result.exit_code == 1
    assert (
        "  no       findings of made-up:bad  could not look: ValueError: a broken driver"
        in result.output
    )


def test_without_any_other_plugin_the_command_loads_no_heavy_library():
    code = (
        "import sys\nfrom importlib.metadata import distribution\n"
        "from sentbed._registry import registry\nfrom sentbed._cli.main import main\n"
        "registry.entry_points = lambda group: distribution('sentbed-workbench').entry_points\n"
        "try:\n    main(['doctor'])\n"
        "finally:\n    print([name for name in ('torch', 'numpy', 'jax', 'ray') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("installation\n  yes      Python")
    assert done.stdout.splitlines()[-1] == "[]"
