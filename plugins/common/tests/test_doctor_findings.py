from __future__ import annotations

import os
import sys
from importlib.metadata import version

import attrs
import pytest
from sentbed import RunError
from sentbed_common import Finding, Trial, elsewhere, packages, present, version_of

HELPERS = """
import os, signal, sys, time

def answer():
    print("chatter")
    print("more chatter", file=sys.stderr)
    return {"said": os.environ["SAID"], "process": os.getpid()}

def fail():
    raise ValueError("found 3")

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def leave():
    sys.exit(7)

def hang():
    time.sleep(60)
"""


@pytest.fixture
def helpers(put, monkeypatch):
    """A module that this process and others can import."""
    directory = put("away/far_away.py", HELPERS).parent
    monkeypatch.syspath_prepend(str(directory))
    monkeypatch.setenv("PYTHONPATH", str(directory))
    monkeypatch.delitem(sys.modules, "far_away", raising=False)
    import far_away

    return far_away


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution that asks for others."""
    site = tmp_path / "packages"
    monkeypatch.syspath_prepend(str(site))

    def make(name, of, *lines):
        info = site / f"{name.replace('-', '_')}-{of}.dist-info"
        info.mkdir(parents=True)
        asks = "".join(f"{line}\n" for line in lines)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {of}\n{asks}"
        )

    return make


# --- versions ----------------------------------------------------------------------------------------------


def test_a_version_is_that_of_the_distribution_or_none():
    assert version_of("attrs") == version("attrs")
    assert version_of("no-such-distribution") is None


def test_packages_that_are_there_are_named_with_their_versions():
    finding = packages("adapters", "LoRA", "sentbed", ("attrs", "click"), "lora")
    versions = f"attrs {version('attrs')}, click {version('click')}"
    assert finding == Finding("adapters", "LoRA", "yes", versions)
    assert packages("models", "attrs", "sentbed", ("attrs",)).detail == version("attrs")


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it():
    finding = packages(
        "adapters", "4 bits", "sentbed-backbones", ("attrs", "nothing-here"), "qlora"
    )
    assert (finding.status, finding.remedy) == (
        "no",
        "`pip install 'sentbed-backbones[qlora]'`",
    )
    assert finding.detail == f"attrs {version('attrs')}; nothing-here not installed"
    assert packages("models", "x", "sentbed-backbones", ("nothing-here",)).remedy == (
        "`pip install sentbed-backbones`"
    )


def test_a_package_of_another_version_than_the_extra_pins_is_limited(
    install,
):
    install("torchax", "0.0.13")
    install(
        "thing",
        "1.0",
        'Requires-Dist: torchax==0.0.14.dev1; extra == "tpu"',
        'Requires-Dist: dated==2.0.dev3; extra == "tpu"',
    )
    install("dated", "2.0.dev3")
    finding = packages("runtimes", "tpu", "thing", ("torchax", "dated"), "tpu")
    assert finding.status == "limited"
    assert finding.detail == "torchax 0.0.13, expected ==0.0.14.dev1; dated 2.0.dev3"
    assert finding.remedy == "`pip install --upgrade 'thing[tpu]'`"


# --- findings ----------------------------------------------------------------------------------------------


def test_a_remedy_is_for_what_is_not_there():
    assert present("compile", "g++", True, "12.2", "`apt install g++`").remedy == ""
    assert present(
        "compile", "g++", False, "not found", "`apt install g++`"
    ) == Finding("compile", "g++", "no", "not found", "`apt install g++`")


def test_a_trial_is_a_finding_with_something_to_attempt():
    better = Finding("compile", "torch.compile", "no")
    trial = Trial("compile", "torch.compile", "yes", attempt=lambda: better)
    assert isinstance(trial, Finding)
    assert trial.attempt() is better
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        trial.status = "no"


# --- another process ---------------------------------------------------------------------------------------


def test_a_function_answers_from_another_process_with_its_own_variables(
    helpers,
):
    answer = elsewhere(helpers.answer, 30, SAID="this")
    assert answer["said"] == "this"
    assert answer["process"] != os.getpid()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fail", "ValueError: found 3"),
        ("die", "the process was ended by SIGKILL"),
        ("leave", "the process ended with exit code 7"),
    ],
)
def test_what_happens_to_the_other_process_is_said(helpers, name, message):
    with pytest.raises(RunError) as raised:
        elsewhere(getattr(helpers, name), 30)
    assert str(raised.value) == message


def test_a_process_that_hangs_is_ended(helpers):
    with pytest.raises(RunError, match=r"no answer within 0\.5 s"):
        elsewhere(helpers.hang, 0.5)


def test_the_directory_of_the_shell_lends_no_module(
    put,
    helpers,
    monkeypatch,
):
    monkeypatch.chdir(
        put("here/json.py", "raise RuntimeError('not the real one')").parent
    )
    assert elsewhere(helpers.answer, 30, SAID="safe")["said"] == "safe"
