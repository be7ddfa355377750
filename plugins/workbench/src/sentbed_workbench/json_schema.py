"""JSON Schema of recipes for editors: completion, documentation and checks while typing.

It is derived from the types of a recipe: core's tables, those of plugins, and the fields of every installed
component. Draft 7 is the newest that Taplo and Even Better TOML support. For completion, they read `properties`,
`anyOf` and `allOf`, but not `then`.

A file that extends others, that others extend, or that has a study may leave keys out. So the schema of a table
has two parts: its keys and their types, which always hold; and `.complete`, the required keys, which hold only
in a recipe that extends nothing, and in arrays to which no other file adds.

`sentbed check` finds more: problems that a component's `check` or an opaque validator reports, and `1.0` in
place of an integer, which JSON does not distinguish from `1`.
"""

from __future__ import annotations

import inspect
import json
import types
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs
from sentbed import FilePath, ModelId, __version__
from sentbed.kinds import kind_of
from sentbed.tools import (
    EXTENDS,
    MAIN_ENCODER,
    SCHEMA,
    EncoderRecipe,
    Offer,
    Plugins,
    Recipe,
)
from sentbed_common import field_docs

from sentbed_workbench.component_docs import default_of
from sentbed_workbench.validator_schema import limit

Schema: TypeAlias = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"

_PLAIN: Mapping[Any, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    FilePath: "string",
    ModelId: "string",
}


def recipe_schema(
    plugins: Plugins, warn: Callable[[str], object] = warnings.warn
) -> Schema:
    """Return the JSON Schema of a recipe, or of a file that recipes extend, with these plugins.

    A component or a table whose fields cannot be read is left out, and `warn` is called with the reason.
    """
    readable = _readable(plugins, warn)
    tables = _Tables(readable)
    recipe, complete = tables.recipe()
    incomplete = [{"required": [EXTENDS]}]
    for key, offer in readable.tables.items():
        if offer.value.traits.variants:
            incomplete.append({"required": [key]})

    alone = {"required": ["schema"], "not": {"anyOf": incomplete}}
    return {
        "$schema": DRAFT,
        "title": "sentbed recipe",
        "description": f"A recipe of sentbed {__version__}, with the plugins that were installed.",
        "allOf": [recipe, {"if": alone, "then": complete}],
        "definitions": tables.definitions,
    }


def _readable(plugins: Plugins, warn: Callable[[str], object]) -> Plugins:
    """Return the plugins without components and tables for which no schema can be made."""
    bare = attrs.evolve(plugins, components={}, tables={})
    components, tables = {}, {}
    for place, info in plugins.components.items():
        if _is_readable(
            info, f"{info.kind} `{info.name}` of `{info.distribution}`", bare, warn
        ):
            components[place] = info
    for key, offer in plugins.tables.items():
        if _is_readable(
            offer, f"table `[{key}]` of `{offer.distribution}`", bare, warn
        ):
            tables[key] = offer
    return attrs.evolve(plugins, components=components, tables=tables)


def _is_readable(
    offer: Offer, title: str, bare: Plugins, warn: Callable[[str], object]
) -> bool:
    """Whether the fields of a component or a table can be read; if not, `warn` is called with the reason."""
    try:
        tables, cls = _Tables(bare), offer.value
        schemas = (
            tables.table_schema(cls),
            tables.required_in_value(cls),
            tables.definitions,
        )
        json.dumps(schemas, allow_nan=False)
    except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others
        warn(
            f"the schema is without the {title}: its fields cannot be read ({type(error).__name__}: "
            f"{error}); import at run time what their types name"
        )
        return False

    return True


class _Tables:
    """Builds the schemas of tables; each is stored once, in `definitions`."""

    def __init__(self, plugins: Plugins) -> None:
        self.plugins = plugins
        self.definitions: dict[str, Schema] = {}

    def recipe(self) -> tuple[Schema, Schema]:
        """Return both parts of the schema of a file: keys, and required keys."""
        schema, complete = self.table_schema(Recipe), self.required_in_table(Recipe)
        encoder = {
            "allOf": [self.value_schema(EncoderRecipe)],
            "description": _first_line(EncoderRecipe),
        }
        schema["properties"] |= {
            "schema": {
                "const": SCHEMA,
                "description": "The version of the format of recipes.",
            },
            EXTENDS: {
                "type": ["string", "array"],
                "items": {"type": "string"},
                "description": "Recipes, or parts of recipes, below this one: paths from its directory.",
            },
            MAIN_ENCODER: encoder,
        }
        for key, offer in self.plugins.tables.items():
            table = {
                "allOf": [self.value_schema(offer.value)],
                "description": _first_line(offer.value),
            }
            schema["properties"][key] = table
            if required := self.required_in_value(offer.value):
                complete["properties"][key] = required

        schema["not"] = {"required": [MAIN_ENCODER, "encoders"]}
        complete["properties"][MAIN_ENCODER] = self.required_in_value(EncoderRecipe)
        complete["required"].remove("encoders")
        complete["anyOf"] = [{"required": [MAIN_ENCODER]}, {"required": ["encoders"]}]
        complete["properties"]["encoders"]["minProperties"] = 1
        return schema, complete

    def value_schema(self, kind: Any) -> Schema:
        """Return the schema of a value of this type that holds in every file."""
        members = [member for member in get_args(kind) if member is not type(None)]
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if (component := kind_of(kind)) is not None:
            table = self.define(
                component.name, lambda: self.component_schema(component.name)
            )
            if not component.by_name:
                return table
            return _any_of([{"enum": self.plugins.names(component.name)}, table])
        if get_origin(kind) is Literal:
            return {"enum": members}
        if get_origin(kind) in (Union, types.UnionType):
            return _any_of(list(map(self.value_schema, members)))
        if get_origin(kind) is tuple:
            return self.array(members)
        if get_origin(kind) in (Mapping, dict):
            return {
                "type": "object",
                "additionalProperties": self.value_schema(members[1]),
            }
        if attrs.has(kind):
            inline = _inline(kind)
            if inline is not None and (inlined := kind_of(inline)) is not None:
                return self.define(
                    _path(kind), lambda: self.component_schema(inlined.name, kind)
                )
            return self.define(_path(kind), lambda: self.table_schema(kind))
        return {}

    def array(self, members: list[Any]) -> Schema:
        """Return the schema of an array of any length, or of one with an element of each of these types."""
        if members[-1] is ...:
            items = self.value_schema(members[0])
            if _named(members[0]):
                # Elements with names are merged with those of other files; others are replaced as a whole.
                complete: Schema = {"required": ["name"]}
            else:
                complete = self.required_in_value(members[0])
            if complete:
                items = {"allOf": [items, complete]}
            return {"type": "array", "items": items}
        each = [self.value_schema(member) for member in members]
        return {
            "type": "array",
            "items": each,
            "minItems": len(each),
            "maxItems": len(each),
        }

    def required_in_value(self, kind: Any) -> Schema:
        """Return the required keys of a value to which no other file adds; empty if there are none."""
        if (component := kind_of(kind)) is not None:
            return self.define(
                f"{component.name}.complete",
                lambda: self.required_of_component(component.name),
            )
        if get_origin(kind) in (Union, types.UnionType):
            return _all_of(map(self.required_in_value, get_args(kind)))
        if get_origin(kind) is tuple and _named(get_args(kind)[0]):
            return {"items": self.required_in_value(get_args(kind)[0])}
        if get_origin(kind) in (Mapping, dict) and (
            schema := self.required_in_value(get_args(kind)[1])
        ):
            return {"additionalProperties": schema}
        if inspect.isclass(kind) and attrs.has(kind):
            schema = _all_of(
                [self.required_in_table(kind), self.required_in_value(_inline(kind))]
            )
            if schema:
                return self.store(f"{_path(kind)}.complete", schema)
        return {}

    def table_schema(self, cls: type[Any]) -> Schema:
        """Return the schema of a table: these keys and no others."""
        return {
            "type": "object",
            "description": inspect.getdoc(cls) or "",
            "properties": self.properties(cls),
            "additionalProperties": False,
        }

    def properties(self, cls: type[Any]) -> dict[str, Schema]:
        """Return the schema of each key of a table, with its documentation and default."""
        documented, hints = field_docs(cls), get_type_hints(cls)
        schemas = {}
        for key, field in _fields(cls).items():
            schema = self.value_schema(hints[field.name])
            limit(schema, field.validator)
            about: Schema = {}
            if meaning := inspect.cleandoc(documented.get(field.name, "")):
                about["description"] = meaning
            if (default := default_of(field)) not in (None, attrs.NOTHING):
                about["default"] = default
            if about and "$ref" in schema:
                # Keywords beside a `$ref` are ignored.
                schema = {"allOf": [schema]}
            schemas[key] = schema | about

        return schemas

    def required_in_table(self, cls: type[Any]) -> Schema:
        """Return the keys that a table must have, and those that its values must have."""
        hints = get_type_hints(cls)
        required = []
        properties = {}
        for key, field in _fields(cls).items():
            if field.default is attrs.NOTHING:
                required.append(key)
            if schema := self.required_in_value(hints[field.name]):
                properties[key] = schema

        schema = {}
        if required:
            schema["required"] = required
        if properties:
            schema["properties"] = properties
        return schema

    def component_schema(
        self, kind: str, table_class: type[Any] | None = None
    ) -> Schema:
        """Return the schema of a table with the fields of the component in `use`, and those of `table_class`."""
        label = kind
        table_properties: dict[str, Schema] = {}
        if table_class is not None:
            label = _path(table_class)
            table_properties = self.properties(table_class)

        names = self.plugins.names(kind)
        first_lines = []
        variants: list[Schema] = []
        alternatives: defaultdict[str, list[tuple[str, Schema]]] = defaultdict(list)
        for name in names:
            cls = self.plugins.find(kind, name).cls
            first_lines.append(_first_line(cls))
            schema = self.table_schema(cls)
            properties = schema["properties"] | table_properties
            schema["properties"] = {"use": {"const": name}, **properties}
            variant = self.store(f"{label}.{name}", schema)
            variants.append({"if": _uses(name), "then": variant})
            for key, property_schema in properties.items():
                schemas = [other for _, other in alternatives[key]]
                if property_schema not in schemas:
                    alternatives[key].append(
                        (f"{variant['$ref']}/properties/{key}", property_schema)
                    )

        use = {
            "enum": names,
            "description": f"The {kind} by its name.",
            "x-taplo": {"docs": {"enumValues": first_lines}},
        }
        union: dict[str, Schema] = {"use": use}
        for key, pairs in alternatives.items():
            union[key] = _any_of([{"$ref": ref} for ref, _ in pairs])
        any_of_them = self.store(
            f"{label}.any",
            {"type": "object", "properties": union, "additionalProperties": False},
        )
        return {
            "allOf": [
                {"type": "object", "properties": {"use": use}},
                # Rejects nothing: editors use it for completion.
                {"anyOf": [{}, any_of_them]},
                # Another file may name the component.
                {"if": {"required": ["use"]}, "else": any_of_them},
                *variants,
            ]
        }

    def required_of_component(self, kind: str) -> Schema:
        """Return the keys that a component's table must have: `use`, and those of the component in `use`."""
        variants = []
        for name in self.plugins.names(kind):
            if schema := self.required_in_table(self.plugins.find(kind, name).cls):
                variants.append({"if": _uses(name), "then": schema})
        if not variants:
            return {"required": ["use"]}
        return {"required": ["use"], "allOf": variants}

    def define(self, name: str, make: Callable[[], Schema]) -> Schema:
        """Return a reference to the definition `name`, which is created if it does not exist."""
        if name not in self.definitions:
            self.store(name, {})  # a component may hold others of its kind
            self.store(name, make())
        return {"$ref": f"#/definitions/{name}"}

    def store(self, name: str, schema: Schema) -> Schema:
        """Store a definition and return a reference to it."""
        self.definitions[name] = schema
        return {"$ref": f"#/definitions/{name}"}


def _fields(cls: type[Any]) -> dict[str, attrs.Attribute[Any]]:
    """Return the fields that are keys of a table, by key."""
    fields = {}
    for field in attrs.fields(cls):
        metadata = field.metadata
        if metadata.get("skip") or metadata.get("inline") or metadata.get("spread"):
            continue
        fields[metadata.get("key", field.name)] = field
    return fields


def _any_of(schemas: Sequence[Schema]) -> Schema:
    """Return the schema of values that fit one of these schemas."""
    if len(schemas) == 1:
        return schemas[0]
    return {"anyOf": schemas}


def _all_of(schemas: Iterable[Schema]) -> Schema:
    """Return the schema of values that fit all of these schemas; empty schemas fit everything."""
    restricting = list(filter(None, schemas))
    if not restricting:
        return {}
    if len(restricting) == 1:
        return restricting[0]
    return {"allOf": restricting}


def _inline(cls: type[Any]) -> Any:
    """Return the base class of the component whose fields are inlined in a table, or None."""
    for field in attrs.fields(cls):
        if field.metadata.get("inline"):
            return get_type_hints(cls)[field.name]
    return None


def _named(kind: Any) -> bool:
    return inspect.isclass(kind) and attrs.has(kind) and "name" in _fields(kind)


def _path(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _first_line(cls: type[Any]) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _uses(name: str) -> Schema:
    return {"required": ["use"], "properties": {"use": {"const": name}}}
