"""Rules of every component's class: what it is called, says and has, and what importing it loads."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.tools import ATTRIBUTES, METHODS, NEEDED, field_docs

from sentbed_testing.light import heavy_imports
from sentbed_testing.subject import NotRunError, Subject, installed

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

ARGUMENTS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "backbone": {"build": 1, "misfits": 1, "outline": 1},
        "pooler": {"build": 1},
        "loss": {"build": 1, "misfits": 2, "negatives": 2},
        "data": {"open": 0},
        "evaluator": {"prepare": 0, "files": 0},
        "runtime": {"build": 0, "launch": 1, "serve": 0, "outline": 1, "sketch_pooler": 2, "sketch_loss": 4},
        "optimizer": {"build": 1, "build_optax": 1, "state_bytes": 1},
        "schedule": {"factor": 2},
        "tracker": {"build": 0},
        "exporter": {"write": 2},
        "importer": {"read": 1, "recognises": 1},
    }
)
"""Kind -> method -> how many arguments it is given. A method that `METHODS` does not name is optional."""

POOLING = ("cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean")
"""What a pooler may say as `pooling`; see `protocols.Pooler`."""

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
    if not isinstance(name, str) or (attrs.has(subject.cls) and "name" in attrs.fields_dict(subject.cls)):
        yield "it has no name of its class", 'write `name: ClassVar[str] = "..."`'
        return
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        yield f"it is called {name!r}", "take small letters, digits and single dashes, such as `mean-max`"
    at, plugins = (subject.kind, name), installed()
    # Of a clash that is not decided, no claim is among the components.
    claims = [plugins.components[at]] if at in plugins.components else []
    if not claims and at in plugins.clashes:
        claims += plugins.clashes[at].claims
    for other in claims:
        if _identity(other.cls) != _identity(subject.cls):
            yield (
                f"the {subject.kind} `{name}` is offered by `{other.distribution}` already",
                "choose another `name`",
            )


def _identity(cls: type[Any]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def documented(subject: Subject) -> Findings:
    """Class and fields say what they are."""
    if not (subject.cls.__doc__ or "").strip():
        yield "the class has no docstring", "write one; `sentbed show` shows it, and lists its first line"
    if not attrs.has(subject.cls):
        return
    try:
        said = field_docs(subject.cls)
    except (OSError, TypeError) as error:
        raise NotRunError("the source of the class cannot be read") from error
    for field in attrs.fields(subject.cls):
        if not field.metadata.get("skip") and not said.get(field.name, "").strip():
            yield (
                f"the field `{field.name}` has no documentation",
                "put a string under it: what it is, its unit and range, its source",
            )


def protocol(subject: Subject) -> Findings:
    """It has the methods and attributes of its kind, and they take what core gives them."""
    cls, kind = subject.cls, subject.kind
    method = METHODS.get(kind, "build")
    for name in (method, *NEEDED.get(kind, ())):
        if not callable(getattr(cls, name, None)):
            yield f"it has no method `{name}`", f"write it; `sentbed.protocols` says what a {kind} promises"
    for name, count in {"check": 0, **ARGUMENTS[kind]}.items():
        function = inspect.getattr_static(cls, name, None)
        if not inspect.isfunction(function):
            continue
        try:
            inspect.signature(function).bind(*[None] * (count + 1))
        except TypeError as error:
            yield (
                f"`{name}` cannot be called with {count} argument(s) beside `self`: {error}",
                f"give it the parameters that `sentbed.protocols` has for a {kind}",
            )
    attribute = ATTRIBUTES.get(kind)
    if attribute and not (
        hasattr(cls, attribute) or (attrs.has(cls) and attribute in attrs.fields_dict(cls))
    ):
        yield f"it has no `{attribute}`", f"add it; `sentbed.protocols` says what it means for a {kind}"
    for name in ("needs", "takes", "offers", "heeds", "keys"):
        said: Any = getattr(cls, name, frozenset())
        if isinstance(said, property) or (attrs.has(cls) and name in attrs.fields_dict(cls)):
            continue
        if not (isinstance(said, frozenset) and all(isinstance(word, str) for word in said)):
            yield f"`{name}` is {said!r}", f'make it a frozen set of words: `{name} = frozenset({{"..."}})`'
    if kind == "pooler":
        yield from _pooling(subject)
    yield from _cites(subject)


def _pooling(subject: Subject) -> Findings:
    pooling, dense = (_said(subject, name) for name in ("pooling", "dense"))
    if pooling is not None and pooling not in POOLING:
        yield f"`pooling` is {pooling!r}", f"take one of {', '.join(POOLING)}, or leave it out"
    if not isinstance(dense, str | None):
        yield f"`dense` is {dense!r}", "name the attribute of the module that is the linear layer, or None"


def _cites(subject: Subject) -> Findings:
    cites: Any = _said(subject, "cites")
    if cites is None:
        return
    if not isinstance(cites, tuple):
        yield f"`cites` is {cites!r}", 'make it a tuple: `cites = ("...",)`'
        return
    known = re.findall(ENTRY, (files("sentbed") / "citations.bib").read_text("utf-8"), re.MULTILINE)
    for citation in cites:
        if citation not in known and not (isinstance(citation, str) and re.match(ENTRY, citation.strip())):
            yield (
                f"it cites {citation!r}, which is no key of `sentbed/citations.bib`",
                "put the whole BibTeX entry there, which begins with `@` and has a key",
            )


def _said(subject: Subject, name: str) -> Any:
    """Return an attribute, or a property of one that can be made; None where there is none."""
    with suppress(NotRunError):
        return getattr(subject.part, name, None)
    said = getattr(subject.cls, name, None)
    return None if inspect.isdatadescriptor(said) else said


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
