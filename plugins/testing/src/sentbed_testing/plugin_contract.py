"""The contract of a plugin as a whole, and the contracts of everything that it offers."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from typing import Any, ClassVar

import attrs
import click
import pytest
from click.testing import CliRunner
from sentbed import hookspecs
from sentbed.kinds import KINDS
from sentbed.protocols import Component
from sentbed.tools import Offer, load_plugins

import sentbed_testing
from sentbed_testing.component_contract import ComponentContract
from sentbed_testing.offers import plugins_named

HEAVY = (
    "torch", "jax", "optax", "tensorflow", "transformers", "tokenizers", "safetensors", "huggingface_hub",
    "numpy", "scipy", "sklearn", "pandas", "datasets", "pyarrow", "matplotlib", "nltk", "syntok", "mteb",
    "peft", "bitsandbytes", "accelerate", "tensorboard", "mlflow", "sqlalchemy", "onnx", "onnxruntime",
    "openvino", "nncf", "sentence_transformers", "ray",
)  # fmt: skip
"""Libraries whose import alone takes longer than `sentbed check` may take."""


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new Python process that finds the same modules."""
    return subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def assert_has_help(words: str, command: click.Command) -> None:
    """Assert that the option `--help` of a command and of its subcommands works, and says what they do."""
    result = CliRunner().invoke(command, ["--help"], prog_name=f"sentbed {words}")

    assert result.exit_code == 0, f"{words}: {result.output or result.exception}"
    assert (command.help or "").strip(), f"`sentbed {words}` has no docstring"

    for name, subcommand in getattr(command, "commands", {}).items():
        assert_has_help(f"{words} {name}", subcommand)


class PluginContract:
    """Tests of a plugin. A subclass sets `plugin`."""

    plugin: ClassVar[str]
    """Name of an installed plugin, or of a distribution, all of whose plugins are tested."""

    def test_loads(self) -> None:
        """The entry point can be imported, its hooks exist, and what they return can be imported."""
        for plugin in plugins_named(self.plugin):
            assert plugin.status == "loaded", plugin.reason
            assert plugin.hooks, f"`{plugin.module}` implements no hook"
            for offer in plugin.offers:
                offer.load()

    def test_hooks_are_marked(self) -> None:
        """Each function with the name of a hook has the mark `@sentbed.hookimpl`."""
        manager = load_plugins().manager
        for plugin in plugins_named(self.plugin):
            namespace = manager.get_plugin(plugin.key)
            for name, spec in vars(hookspecs).items():
                function = getattr(namespace, name, None)
                if not hasattr(spec, "sentbed_spec") or not inspect.isroutine(function):
                    continue

                if function.__module__ == plugin.module:
                    assert hasattr(function, "sentbed_impl"), f"`{name}` has no mark"

    def test_import_is_light(self) -> None:
        """Importing the plugin in a new process works, loads no heavy library and prints nothing."""
        for plugin in plugins_named(self.plugin):
            show_loaded = f"print(*sorted({set(HEAVY)!r} & set(sys.modules)))"
            process = run_python(f"import sys, {plugin.module}\n{show_loaded}")

            assert process.returncode == 0, process.stderr

            # The last line is that of `show_loaded`.
            *printed, loaded = process.stdout.splitlines()
            assert printed == []
            assert loaded.split() == [], "import it where it is needed"

    def test_help_of_commands(self) -> None:
        """The option `--help` of each command and subcommand works, and says what it does."""
        for plugin in plugins_named(self.plugin):
            for offer in plugin.offers:
                if offer.kind == "command":
                    assert_has_help(offer.name, offer.load())


def default_component(offer: Offer) -> Component:
    """Return the offered component with its defaults.

    The test is skipped if a field has no default, or if `check` reports a problem.
    """
    cls: Any = offer.load()
    for field in attrs.fields(cls):
        if field.init and field.default is attrs.NOTHING:
            pytest.skip(f"`{field.name}` has no default: test it in a class of its own")

    component: Component = cls()
    for problem in component.check():
        pytest.skip(str(problem))
    return component


def contract_of(offer: Offer) -> type[ComponentContract]:
    """Return the test class of an offered component."""
    name = f"{offer.kind.capitalize()}Contract"
    contract = getattr(sentbed_testing, name, ComponentContract)

    @pytest.fixture
    def component(self: ComponentContract) -> Component:
        return default_component(offer)

    words = f"{offer.kind}-{offer.name}".split("-")
    class_name = "Test" + "".join(word.capitalize() for word in words)
    return type(class_name, (contract,), {"component": component})


def contracts_of(name: str) -> dict[str, type]:
    """Return test classes for a plugin or a distribution, and for each component that it offers.

    A test module gets them with `globals().update(contracts_of("sentbed-mine"))`.

    Raises:
        PluginError: if no installed plugin has this name.
    """
    classes: dict[str, type] = {}
    classes["TestPlugin"] = type("TestPlugin", (PluginContract,), {"plugin": name})
    for plugin in plugins_named(name):
        for offer in plugin.offers:
            if offer.kind in KINDS:
                contract = contract_of(offer)
                classes[contract.__name__] = contract
    return classes
