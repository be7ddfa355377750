"""Rules of every component's fields: types, defaults, values in a recipe."""

from __future__ import annotations

import pickle
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
from sentbed import FilePath, ModelId
from sentbed.kinds import KINDS, kind_of
from sentbed.tools import Document, structure, unstructure

from sentbed_testing.component_under_test import NotRunError, Subject, installed

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

PLAIN = (str, int, float, bool, NoneType, FilePath, ModelId)

ODD: Mapping[Any, tuple[Any, ...]] = {
    str: ("", "no such thing", "a/b: c"),
    FilePath: ("no-such-file.csv", "pkg:no_such_package/file", "data:no-such-file"),
    ModelId: ("no-such-model", "./no-such-directory"),
    int: (-1, 0, 2**31),
    float: (-1.0, 0.0, 1e30),
    tuple: ([],),
    Mapping: ({},),
}
"""Type of a field -> mistaken values that a recipe might give it."""


def field_types(subject: Subject) -> Findings:
    """Every field has a type that TOML can represent."""
    if not attrs.has(subject.cls):
        raise NotRunError("it is no attrs class; see the rule `frozen`")
    hints = get_type_hints(subject.cls)
    for field in attrs.fields(subject.cls):
        if field.metadata.get("skip"):
            continue
        if field.type is None:
            yield (
                f"the field `{field.name}` has no type",
                "annotate it, such as `size: int = 8`",
            )
        elif (wrong := next(_unfit(hints[field.name]), None)) is not None:
            yield (
                f"the field `{field.name}` has the type `{_shown(wrong)}`, which no recipe can give",
                "take str, int, float, bool, Literal, tuple, Mapping, a path, a frozen attrs class, a kind "
                "of component, or any of these `| None`",
            )


def _unfit(hint: Any) -> Iterator[Any]:
    """Yield the parts of a type that TOML cannot represent."""
    origin = get_origin(hint)
    if hint in PLAIN or kind_of(hint):
        return
    if origin is Literal:
        yield from (
            value
            for value in get_args(hint)
            if not isinstance(value, str | int | float | bool)
        )
    elif origin in (Union, UnionType):
        for member in get_args(hint):
            yield from _unfit(member)
    elif origin is tuple:
        for member in get_args(hint):
            if member is not ...:
                yield from _unfit(member)
    elif origin in (Mapping, dict):
        key, value = get_args(hint)
        yield from [] if key is str else [key]
        yield from _unfit(value)
    elif isinstance(hint, type) and attrs.has(hint):
        if hint.__setattr__ is object.__setattr__:
            yield hint
        hints = get_type_hints(hint)
        for field in attrs.fields(hint):
            yield from _unfit(hints[field.name])
    else:
        yield hint


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def defaults(subject: Subject) -> Findings:
    """Its defaults pass its own validators, and it can be constructed."""
    if not attrs.has(subject.cls):
        raise NotRunError("it is no attrs class; see the rule `frozen`")
    refused = False
    for field in attrs.fields(subject.cls):
        default: Any = field.default
        if default is attrs.NOTHING:
            continue
        if hasattr(default, "factory"):
            if default.takes_self:
                continue
            default = default.factory()
        try:
            if field.validator is not None:
                field.validator(None, field, default)
        except (ValueError, TypeError) as error:
            refused = True
            yield (
                f"the default of `{field.name}`, {default!r}, is refused by its own validator: {error}",
                "change the default or the validator",
            )
        except AttributeError:
            continue  # It looks at other fields; making the component calls it again.

    missing = [
        field.name
        for field in attrs.fields(subject.cls)
        if field.default is attrs.NOTHING
        and field.init
        and field.alias not in subject.example
    ]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        yield (
            f"without a default are {listed}",
            "give them in an `example`",
        )
    elif not refused:
        try:
            subject.make()
        except Exception as error:  # noqa: BLE001 - whatever the class raises is the finding
            yield (
                f"it cannot be made with {dict(subject.example) or 'its defaults'}: {error}",
                "change the defaults, or give an `example` that is valid",
            )


def toml(subject: Subject) -> Findings:
    """Written to TOML and read again, the component is equal."""
    import tomli_w

    part = subject.part
    table = unstructure(part)
    table.pop("use", None)
    written = tomli_w.dumps(table)
    again, problems = structure(
        tomllib.loads(written),
        subject.cls,
        Document({}),
        installed(),
        Path.cwd(),
        check=False,
    )
    fix = "let each field hold what its type says, and compare by value (`eq` on)"
    if problems:
        yield f"written as TOML, it is refused: {problems[0].message}", fix
    elif again != part:
        yield f"written as TOML it becomes {again!r}, not {part!r}", fix


def values(subject: Subject) -> Findings:
    """Two instances with equal fields are equal and have equal hashes, and an instance can be pickled."""
    part = subject.part
    like = subject.cls(
        **{
            field.alias: getattr(part, field.name)
            for field in attrs.fields(subject.cls)
            if field.init
        }
    )
    if like != part:
        yield (
            "two with the same fields are not equal",
            "leave `eq` of `attrs.frozen` as it is",
        )

    if not any(
        isinstance(value, Mapping)
        for value in attrs.asdict(part, recurse=False).values()
    ):
        try:
            same = hash(like) == hash(part)
        except TypeError as error:
            yield (
                f"it has no hash: {error}",
                "take tuples for lists, and frozen classes for tables",
            )
        else:
            if not same:
                yield (
                    "two with the same fields have different hashes",
                    "leave `hash` of `attrs.frozen` as it is",
                )

    fix = (
        "define the class at the top of its module, and keep plain values in its fields"
    )
    try:
        sent = pickle.loads(pickle.dumps(part))
    except Exception as error:  # noqa: BLE001 - pickle raises what it likes
        yield f"it cannot be pickled: {error}", fix
    else:
        if sent != part:
            yield "pickled and read again, it is another", fix


def odd_values(subject: Subject) -> Findings:
    """A value that it cannot take is refused in a sentence, never in a traceback."""
    part = subject.part
    table = unstructure(part)
    table.pop("use", None)
    hints = get_type_hints(subject.cls)
    yield from _sentences(part, "as it is")
    for field in attrs.fields(subject.cls):
        key = field.metadata.get("key", field.name)
        for value in _odd(hints[field.name]):
            setting = f"with {key} = {value!r}"
            component, problems = structure(
                {**table, key: value},
                subject.cls,
                Document({}),
                installed(),
                Path.cwd(),
                check=False,
            )
            for problem in problems:
                if problem.message.startswith("making `"):
                    yield (
                        f"{setting}, {problem.message}",
                        "raise ValueError with a sentence that says what is expected",
                    )
            if not problems:
                yield from _sentences(component, setting)


def _odd(hint: Any) -> Iterator[Any]:
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for member in members:
        yield from ODD.get(get_origin(member) or member, ())


def _sentences(part: Any, setting: str) -> Findings:
    """Yield a finding if a component's `check` raises, or yields anything but sentences."""
    try:
        problems = list(part.check())
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        yield (
            f"{setting}, `check` raises {type(error).__name__}: {error}",
            "yield a sentence that ends in what to do",
        )
        return

    for problem in problems:
        if not isinstance(problem, str) or not problem.strip():
            yield (
                f"{setting}, `check` yields {problem!r}",
                "yield a sentence that ends in what to do",
            )


def machine(subject: Subject) -> Findings:
    """A field that belongs to the machine has a default: its value in a saved directory is ignored."""
    if not attrs.has(subject.cls):
        raise NotRunError("it is no attrs class; see the rule `frozen`")
    for field in attrs.fields(subject.cls):
        if field.metadata.get("machine") and field.default is attrs.NOTHING:
            yield (
                f"the field `{field.name}` belongs to the machine (`OF_MACHINE`) and has no default",
                "give it one, such as None: a directory's value is never taken",
            )


OF_THE_INNER: Mapping[str, Mapping[str, Any]] = {
    "backbone": {"runs_code": True, "untrainable": "it is not trained"},
    "pooler": {
        "needs": frozenset({"of-the-inner"}),
        "new_layer": True,
        "pretrained": True,
    },
    "loss": {
        "needs": frozenset({"of-the-inner"}),
        "compares_texts": True,
        "scheduled": True,
        "stateful": True,
    },
    "data": {"fetches": True},
    "evaluator": {"development": False, "reads": frozenset({"vector"})},
}
"""Kind -> traits that a component inherits from an inner component of its kind."""


def inner(subject: Subject) -> Findings:
    """If a field holds a component of the same kind, only core checks it, and its traits are passed on."""
    part, kind = subject.part, subject.kind
    expected = OF_THE_INNER.get(kind, {})
    if not attrs.has(subject.cls):
        raise NotRunError("it is no attrs class; see the rule `frozen`")
    for field in attrs.fields(subject.cls):
        value = getattr(part, field.name)
        first = value[0] if isinstance(value, tuple) and value else value
        if not isinstance(first, KINDS[kind].base):
            continue
        calls: list[str] = []
        replaced: Any = _probe(first, expected, calls)
        if isinstance(value, tuple):
            replaced = (replaced, *value[1:])
        outer = attrs.evolve(part, **{field.alias or field.name: replaced})
        list(outer.check())
        if calls:
            yield (
                f"its `check` calls that of the {kind} in `{field.name}`",
                "leave it out: core calls it, and users would be told everything twice",
            )
        for name, of_inner in expected.items():
            of_outer = getattr(outer.traits, name)
            if not _follows(name, of_outer, of_inner):
                traits = KINDS[kind].traits.__name__
                yield (
                    f"the {kind} in `{field.name}` says `{name} = {_plain(of_inner)}` in its traits, and it "
                    f"says {_plain(of_outer)}",
                    f"write `traits` as a property with `{traits}.of(self.{field.name}, ...)`",
                )


def _probe(inner: Any, traits: Mapping[str, Any], calls: list[str]) -> Any:
    """Return a copy of `inner` with these traits, whose `check` records each call in `calls`."""
    cls: Any = type(inner)
    metaclass: Any = type(cls)

    def check(self: Any) -> Iterator[str]:
        calls.append(self.name)
        return iter(())

    changes = {"traits": attrs.evolve(inner.traits, **traits), "check": check}
    probe = metaclass(cls.__name__, (cls,), changes)
    fields = [field for field in attrs.fields(cls) if field.init]
    return probe(**{field.alias: getattr(inner, field.name) for field in fields})


def _follows(name: str, of_outer: Any, of_inner: Any) -> bool:
    if name == "needs":
        return bool(of_outer >= of_inner)
    if name == "reads":
        return bool(of_outer <= of_inner)
    return bool(of_outer == of_inner)


def _plain(trait: Any) -> Any:
    return sorted(trait) if isinstance(trait, frozenset) else trait


RULES = {
    "field-types": field_types,
    "defaults": defaults,
    "toml": toml,
    "values": values,
    "odd-values": odd_values,
    "machine": machine,
    "inner": inner,
}
