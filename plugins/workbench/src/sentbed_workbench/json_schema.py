"""JSON Schema of recipes for editors: completion, documentation and checks while typing.

The schema is derived from types: core's recipe tables, the recipe tables of plugins, and the fields of every
installed component. It is written in draft 7, the newest draft that Taplo and Even Better TOML support. For
completion, they read `properties`, `anyOf` and `allOf`, but not `then`.

Required keys are not checked, since a file may extend another one that has them.

`sentbed check` finds more: missing keys, what a validator or a component's `check` reports, and `1.0` in place of
an integer, which JSON does not distinguish from `1`. A type that cannot be read allows any value.
"""

from __future__ import annotations

import inspect
import types
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs
from sentbed import FilePath, ModelId, __version__
from sentbed.errors import PluginError
from sentbed.kinds import KINDS, Kind, kind_of
from sentbed.protocols import MAIN_ENCODER, EncoderRecipe, Recipe
from sentbed.tools import EXTENDS, SCHEMA, TABLE, Plugins

from sentbed_workbench.component_docs import keys_of

Schema: TypeAlias = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"

_JSON_TYPES: Mapping[Any, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    FilePath: "string",
    ModelId: "string",
}
"""Type of a field -> its type in JSON Schema."""


def recipe_schema(
    plugins: Plugins, warn: Callable[[str], object] = warnings.warn
) -> Schema:
    """Return the JSON Schema of recipes, and of files that recipes extend, with these plugins.

    A component or a recipe table that cannot be loaded is left out, and `warn` is called with the reason.
    """
    builder = _SchemaBuilder(_loadable(plugins, warn))
    recipe = builder.recipe_schema()
    return {
        "$schema": DRAFT,
        "title": "sentbed recipe",
        "description": f"A recipe of sentbed {__version__}, with the plugins that were installed.",
        "allOf": [recipe],
        "definitions": builder.definitions,
    }


def _loadable(plugins: Plugins, warn: Callable[[str], object]) -> Plugins:
    """Return the plugins without components and recipe tables that cannot be loaded."""
    loadable = {}
    for kind in (*KINDS, TABLE):
        for name in plugins.names(kind):
            offer = plugins.find(kind, name)
            try:
                offer.load()
            except PluginError as error:
                warn(f"the schema is without the {kind} `{name}`: {error}")
            else:
                loadable[kind, name] = [offer]
    return attrs.evolve(plugins, offers=loadable)


class _SchemaBuilder:
    """Builds schemas. Schemas of components and tables are stored once, in `definitions`."""

    def __init__(self, plugins: Plugins) -> None:
        self.plugins = plugins
        self.definitions: dict[str, Schema] = {}

    def recipe_schema(self) -> Schema:
        """Return the schema of a recipe."""
        schema = self.table_schema(Recipe)
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
        for key in self.plugins.names(TABLE):
            cls = self.plugins.load(TABLE, key)
            table = {
                "allOf": [self.value_schema(cls)],
                "description": _first_line(cls),
            }
            schema["properties"][key] = table

        # A recipe has either one encoder or several encoders by name.
        schema["not"] = {"required": [MAIN_ENCODER, "encoders"]}
        return schema

    def value_schema(self, kind: Any) -> Schema:
        """Return the schema of a value of this type."""
        members = [member for member in get_args(kind) if member is not type(None)]
        if kind in _JSON_TYPES:
            return {"type": _JSON_TYPES[kind]}
        if (component := kind_of(kind)) is not None:
            return self.component_reference(component)
        if get_origin(kind) is Literal:
            return {"enum": members}
        if get_origin(kind) in (Union, types.UnionType):
            return _any_of(list(map(self.value_schema, members)))
        if get_origin(kind) is tuple:
            return self.array_schema(members)
        if get_origin(kind) in (Mapping, dict):
            return {
                "type": "object",
                "additionalProperties": self.value_schema(members[1]),
            }

        if attrs.has(kind):
            inlined = kind_of(_inlined_class(kind))
            if inlined is None:
                return self.define(_dotted_name(kind), lambda: self.table_schema(kind))
            return self.define(
                _dotted_name(kind), lambda: self.component_schema(inlined.name, kind)
            )
        return {}

    def component_reference(self, kind: Kind) -> Schema:
        """Return the schema of a component: its table, or its name if the kind allows a name alone."""
        name = kind.name
        table = self.define(name, lambda: self.component_schema(name))
        if not kind.by_name:
            return table
        return _any_of([{"enum": self.plugins.names(name)}, table])

    def array_schema(self, members: list[Any]) -> Schema:
        """Return the schema of an array, given the type arguments of its tuple.

        They are the types of all elements or, if the array may have any length, a type and `...`.
        """
        if members[-1] is not ...:
            elements = [self.value_schema(member) for member in members]
            return {
                "type": "array",
                "items": elements,
                "minItems": len(elements),
                "maxItems": len(elements),
            }

        return {"type": "array", "items": self.value_schema(members[0])}

    def table_schema(self, cls: type[Any]) -> Schema:
        """Return the schema of a table whose keys are the fields of a class. No other keys are allowed."""
        return {
            "type": "object",
            "description": inspect.getdoc(cls) or "",
            "properties": self.properties(cls),
            "additionalProperties": False,
        }

    def properties(self, cls: type[Any]) -> dict[str, Schema]:
        """Return the schema of each key of a table, with the key's documentation and default."""
        schemas = {}
        for key in keys_of(cls):
            if key.is_table:
                continue
            schema = self.value_schema(key.type)
            annotations: Schema = {}
            if key.documentation:
                annotations["description"] = key.documentation
            if key.default not in (None, attrs.NOTHING):
                annotations["default"] = key.default
            if annotations and "$ref" in schema:
                # Other keywords in the same schema as a `$ref` are ignored.
                schema = {"allOf": [schema]}
            schemas[key.name] = schema | annotations

        return schemas

    def component_schema(
        self, kind: str, table_class: type[Any] | None = None
    ) -> Schema:
        """Return the schema of a component's table: its `use` decides which further keys it has.

        With `table_class`, the fields of this class are keys of the table, too.
        """
        label = kind
        table_properties: dict[str, Schema] = {}
        if table_class is not None:
            label = _dotted_name(table_class)
            table_properties = self.properties(table_class)

        names = self.plugins.names(kind)
        first_lines = []
        variants: list[Schema] = []
        references: defaultdict[str, list[Schema]] = defaultdict(list)
        distinct: defaultdict[str, list[Schema]] = defaultdict(list)
        for name in names:
            cls = self.plugins.load(kind, name)
            first_lines.append(_first_line(cls))
            schema = self.table_schema(cls)
            properties = schema["properties"] | table_properties
            schema["properties"] = {"use": {"const": name}, **properties}
            variant = self.store(f"{label}.{name}", schema)
            variants.append({"if": _uses(name), "then": variant})
            for key, property_schema in properties.items():
                if property_schema not in distinct[key]:
                    distinct[key].append(property_schema)
                    reference = f"{variant['$ref']}/properties/{key}"
                    references[key].append({"$ref": reference})

        use = {
            "enum": names,
            "description": f"The {kind} by its name.",
            "x-taplo": {"docs": {"enumValues": first_lines}},
        }
        union: dict[str, Schema] = {"use": use}
        for key, schemas in references.items():
            union[key] = _any_of(schemas)
        any_component = self.store(
            f"{label}.any",
            {"type": "object", "properties": union, "additionalProperties": False},
        )
        return {
            "allOf": [
                {"type": "object", "properties": {"use": use}},
                # This rejects nothing. Editors read it for completion.
                {"anyOf": [{}, any_component]},
                # If there is no `use`, another file may have it.
                {"if": {"required": ["use"]}, "else": any_component},
                *variants,
            ]
        }

    def define(self, name: str, make: Callable[[], Schema]) -> Schema:
        """Return a reference to the definition `name`. If the definition does not exist, `make` creates it."""
        if name not in self.definitions:
            # A component may contain components of its kind: its definition then refers to itself.
            self.store(name, {})
            self.store(name, make())
        return {"$ref": f"#/definitions/{name}"}

    def store(self, name: str, schema: Schema) -> Schema:
        """Store a definition and return a reference to it."""
        self.definitions[name] = schema
        return {"$ref": f"#/definitions/{name}"}


def _any_of(schemas: Sequence[Schema]) -> Schema:
    """Return the schema of values that fit at least one of these schemas."""
    if len(schemas) == 1:
        return schemas[0]
    return {"anyOf": schemas}


def _inlined_class(cls: type[Any]) -> Any:
    """Return the base class of a component whose fields are keys of the class's own table; None without one."""
    for field in attrs.fields(cls):
        if field.metadata.get("inline"):
            return get_type_hints(cls)[field.name]
    return None


def _dotted_name(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _first_line(cls: type[Any]) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _uses(name: str) -> Schema:
    """Return the schema of tables whose `use` is this name."""
    return {"required": ["use"], "properties": {"use": {"const": name}}}
