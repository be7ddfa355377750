"""Rules of every component's class: name, documentation, protocol and imports."""

from __future__ import annotations

import inspect
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.kinds import KINDS
from sentbed.protocols import Lazy
from sentbed.tools import Offer, promise_fault
from sentbed_common import field_docs

from sentbed_testing.component_under_test import NotRunError, Subject, installed
from sentbed_testing.heavy_imports import heavy_imports

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

ENTRY = r"^@\w+\s*\{\s*([^\s,]+)\s*,"
"""The beginning of a BibTeX entry, with its key."""


def frozen(subject: Subject) -> Findings:
    """It is a frozen attrs class."""
    fix = "decorate it with `@attrs.frozen`"
    if not attrs.has(subject.cls):
        yield "it is no attrs class", fix
    elif subject.cls.__setattr__ is object.__setattr__:
        yield "its fields can be set after it was made", fix


def named(subject: Subject) -> Findings:
    """It has a name that a recipe can use, and that nobody else has."""
    name = getattr(subject.cls, "name", None)
    if not isinstance(name, str) or (
        attrs.has(subject.cls) and "name" in attrs.fields_dict(subject.cls)
    ):
        yield "it has no name of its class", 'write `name: ClassVar[str] = "..."`'
        return

    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        yield (
            f"it is called {name!r}",
            "take small letters, digits and single dashes, such as `mean-max`",
        )

    at, plugins = (subject.kind, name), installed()
    # A name that two distributions claim, with no decision, is only among the clashes.
    claims: tuple[Offer, ...] = (
        (plugins.components[at],) if at in plugins.components else ()
    )
    if not claims and at in plugins.clashes:
        claims = plugins.clashes[at].claims
    for other in claims:
        if _identity(other.value) != _identity(subject.cls):
            yield (
                f"the {subject.kind} `{name}` is offered by `{other.distribution}` already",
                "choose another `name`",
            )


def _identity(cls: type[Any]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def documented(subject: Subject) -> Findings:
    """Class and fields have docstrings."""
    if not (subject.cls.__doc__ or "").strip():
        yield (
            "the class has no docstring",
            "write one; `sentbed show` shows it, and lists its first line",
        )

    listed = installed().components.get(
        (subject.kind, getattr(subject.cls, "name", ""))
    )
    first = (inspect.getdoc(subject.cls) or "").partition("\n")[0]
    if (
        listed
        and isinstance(listed.offered, Lazy)
        and listed.cls is subject.cls
        and listed.summary != first
    ):
        yield (
            f"it is listed as {listed.summary!r}, and its docstring begins with {first!r}",
            "give its `Lazy` the first line of the docstring as `summary`",
        )

    if not attrs.has(subject.cls):
        return
    try:
        docs = field_docs(subject.cls)
    except (OSError, TypeError) as error:
        raise NotRunError("the source of the class cannot be read") from error
    for field in attrs.fields(subject.cls):
        if not field.metadata.get("skip") and not docs.get(field.name, "").strip():
            yield (
                f"the field `{field.name}` has no documentation",
                "put a string under it: what it is, its unit and range, its source",
            )


def protocol(subject: Subject) -> Findings:
    """It has the base class, methods and traits of its kind, and its methods take the arguments core passes."""
    cls, kind = subject.cls, KINDS[subject.kind]
    if attrs.has(cls) and (fault := promise_fault(kind, cls)):
        what, _, fix = fault.partition("; ")
        yield f"it {what}", fix
    for name, promised in inspect.getmembers(kind.base, inspect.isfunction):
        function = inspect.getattr_static(cls, name, None)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        count = len(inspect.signature(promised).parameters) - 1
        try:
            inspect.signature(function).bind(*[None] * (count + 1))
        except TypeError as error:
            yield (
                f"`{name}` cannot be called with {count} argument(s) beside `self`: {error}",
                f"give it the parameters that `sentbed.protocols.{kind.base.__name__}` has",
            )

    yield from _traits(subject)


def _traits(subject: Subject) -> Findings:
    try:
        cites = subject.part.traits.cites
    except NotRunError:
        return
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        yield (
            f"`traits` raises {type(error).__name__}: {error.args[0]}",
            "see `sentbed.protocols`",
        )
        return

    citation_keys = re.findall(
        ENTRY, (files("sentbed") / "citations.bib").read_text("utf-8"), re.MULTILINE
    )
    for citation in cites:
        if citation not in citation_keys and not re.match(ENTRY, citation.strip()):
            yield (
                f"it cites {citation!r}, which is no key of `sentbed/citations.bib`",
                "put the whole BibTeX entry there, which begins with `@` and has a key",
            )


def light(subject: Subject) -> Findings:
    """Importing, making and checking it loads no heavy library."""
    for library, where in heavy_imports(subject):
        yield (
            f"the library `{library}` is loaded before anything is built, at {where}",
            "import it in the method that needs it, or in a module that only this method imports",
        )


RULES = {
    "frozen": frozen,
    "named": named,
    "documented": documented,
    "protocol": protocol,
    "light": light,
}
