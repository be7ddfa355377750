"""Pages of what is called: the command line, and the public names of a module."""

from __future__ import annotations

import inspect
import types
from importlib.metadata import entry_points
from typing import Any

import attrs
import click
from docs_markdown import cell, fields, page, prose, signature, table
from sentbed_common import field_docs
from sentbed_workbench.component_docs import type_name


def cli() -> str:
    """Return the page of the command line: every command with its arguments and options."""
    (program,) = entry_points(group="console_scripts", name="sentbed")
    main = program.load()
    parts = [
        "# Command line",
        *_command(
            main, click.Context(main, info_name="sentbed", **main.context_settings)
        ),
    ]
    return page(parts)


def _command(command: click.Command, context: click.Context) -> list[str]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"```text\n{usage}\n```", prose(inspect.cleandoc(command.help or ""))]
    records = [
        record
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context))
    ]
    if records:
        parts.append(
            table(
                ["option", "meaning"],
                ([f"`{' '.join(name.split())}`", cell(text)] for name, text in records),
            )
        )
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            inner = click.Context(below, info_name=name, parent=context)
            parts += [f"## {inner.command_path}", *_command(below, inner)]
    return parts


def public_names(module: types.ModuleType) -> list[str]:
    """Return what a module offers: every name without an underscore that is no module."""
    return [
        name
        for name in dir(module)
        if not name.startswith("_")
        and name not in ("annotations", "TYPE_CHECKING", "Any")
        and not inspect.ismodule(getattr(module, name))
    ]


def module_page(
    title: str, intro: str, module: types.ModuleType, names: list[str]
) -> str:
    """Return the page of what a module offers under these names."""
    parts = [f"# {title}", intro]
    for name in names:
        thing = getattr(module, name)
        parts.append(f"## {name}")
        if inspect.isclass(thing):
            parts += _class(thing)
        elif inspect.isroutine(thing):
            parts += [
                f"```python\n{_called(name, thing)}\n```",
                prose(inspect.getdoc(thing) or ""),
            ]
        else:
            value = getattr(thing, "__supertype__", thing)
            parts.append(
                f"`{name} = {type_name(value) if not isinstance(value, str) else repr(value)}`"
            )
    return page(parts)


def _called(name: str, thing: Any) -> str:
    try:
        return signature(name, thing)
    except ValueError:
        return f"{name}(...)"


def _class(cls: type[Any]) -> list[str]:
    parts = [prose(inspect.getdoc(cls) or "")]
    # Exceptions and named tuples rest on classes without source.
    documented = {} if issubclass(cls, (tuple, BaseException)) else field_docs(cls)
    if attrs.has(cls):
        parts += fields(cls)
    elif documented:
        rows = ([f"`{name}`", cell(text)] for name, text in documented.items())
        parts.append(table(["attribute", "meaning"], rows))
    for name, member in vars(cls).items():
        function = getattr(member, "__func__", member)
        if name.startswith("_") or not (
            inspect.isfunction(function) or isinstance(member, property)
        ):
            continue
        shown = name if isinstance(member, property) else _called(name, function)
        text = prose(inspect.getdoc(member) or "")
        parts += [f"```python\n{shown}\n```", text]
    return parts
