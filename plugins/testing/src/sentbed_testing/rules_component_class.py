"""Rules that the class of any component must keep: name, documentation, protocol and imports."""

from __future__ import annotations

import inspect
import re
from importlib.resources import files
from typing import TYPE_CHECKING

import attrs
from sentbed.kinds import KINDS
from sentbed.tools import class_fault
from sentbed_common import field_docs

from sentbed_testing.component_under_test import NotRunError, Subject, installed

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

BIBTEX_ENTRY = r"^@\w+\s*\{\s*([^\s,]+)\s*,"
"""Pattern of the beginning of a BibTeX entry; its group is the key."""


def frozen(subject: Subject) -> Findings:
    """It is a frozen attrs class."""
    fix = "decorate it with `@attrs.frozen`"
    if not attrs.has(subject.cls):
        yield "it is no attrs class", fix
    elif subject.cls.__setattr__ is object.__setattr__:
        yield "its fields can be set after it was created", fix


def named(subject: Subject) -> Findings:
    """It has a name that a recipe can use and that no other component of its kind has."""
    name = getattr(subject.cls, "name", None)
    is_field = attrs.has(subject.cls) and "name" in attrs.fields_dict(subject.cls)
    if not isinstance(name, str) or is_field:
        yield (
            "its class has no name",
            'write `name: ClassVar[str] = "..."`',
        )
        return

    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        yield (
            f"it is called {name!r}",
            "use only small letters, digits and single dashes, as in `mean-max`",
        )

    for other in installed().offers.get((subject.kind, name), ()):
        cls = other.load()
        if (cls.__module__, cls.__qualname__) != (
            subject.cls.__module__,
            subject.cls.__qualname__,
        ):
            yield (
                f"the {subject.kind} `{name}` is offered by `{other.distribution}` already",
                "choose another `name`",
            )


def documented(subject: Subject) -> Findings:
    """The class and its fields have docstrings. A plugin lists the class with the first line of its docstring."""
    if not (subject.cls.__doc__ or "").strip():
        yield (
            "the class has no docstring",
            "write one; `sentbed show` shows it, and lists its first line",
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
                "write a string below it: what it is, its unit, its range, its source",
            )


def protocol(subject: Subject) -> Findings:
    """It has the base class and the methods of its kind. Its methods take the arguments that core passes."""
    cls, kind = subject.cls, KINDS[subject.kind]
    if fault := class_fault(kind.base, cls):
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
                f"`{name}` cannot be called with {count} argument(s) after `self`: {error}",
                f"give it the parameters that `sentbed.protocols.{kind.base.__name__}` has",
            )

    yield from _trait_faults(subject)


def _trait_faults(subject: Subject) -> Findings:
    """Yield a finding if `cites` raises, or if a citation is neither a key in core's bibliography nor BibTeX."""
    try:
        cites = subject.part.cites
    except NotRunError:
        return
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        yield (
            f"`cites` raises {_message(error)}",
            "see `sentbed.protocols`",
        )
        return

    bibliography = (files("sentbed") / "citations.bib").read_text("utf-8")
    citation_keys = re.findall(BIBTEX_ENTRY, bibliography, re.MULTILINE)
    for citation in cites:
        if citation not in citation_keys and not re.match(
            BIBTEX_ENTRY, citation.strip()
        ):
            yield (
                f"it cites {citation!r}, which is no key of `sentbed/citations.bib`",
                "write the whole BibTeX entry instead of the key",
            )


def _message(error: Exception) -> str:
    """Return the type of an exception and its first argument."""
    # attrs adds the field and the value as further arguments, which `str` would show, too.
    return ": ".join([type(error).__name__, *map(str, error.args[:1])])


RULES = {
    "frozen": frozen,
    "named": named,
    "documented": documented,
    "protocol": protocol,
}
