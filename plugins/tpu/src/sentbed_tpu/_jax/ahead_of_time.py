"""Compilation of a training step for TPUs that are not there, with shapes in place of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import jax
import numpy as np
from jax.experimental import topologies
from sentbed import RuntimeUnavailableError
from sentbed.protocols import Columns
from sentbed_hardware.engine_parts.process_group import Processes

from sentbed_tpu._jax.compiled_functions import Compiled
from sentbed_tpu._jax.engine import JaxEngine
from sentbed_tpu._jax.mesh import Layout
from sentbed_tpu._jax.trainer import JaxTrainer


class AheadLayout(Layout):
    """A layout over devices of which only descriptions exist."""

    def place(self, value: Any, sharding: Any) -> Any:
        """Return the shape and dtype of an array, with its sharding, in place of the array."""
        host = np.asarray(value)
        return jax.ShapeDtypeStruct(
            host.shape, jax.dtypes.canonicalize_dtype(host.dtype), sharding=sharding
        )


class AheadCompiled(Compiled):
    """Functions that are lowered for the platform `tpu` when they are called, and compiled if `compiles` is true.

    To lower a function is to translate it into a program of XLA. `lowered` has a record for each call: the name
    of the function, the size of the lowered program as text, and, if it was compiled, XLA's counts of operations
    and memory.
    """

    def __init__(self, compiles: bool) -> None:
        super().__init__()
        self.compiles = compiles
        self.lowered: list[dict[str, Any]] = []

    def jit(
        self,
        function: Callable[..., Any],
        counted: bool = False,
        **options: Any,
    ) -> Callable[..., Any]:
        """Return a function that takes shapes and returns the shapes of the results."""
        jitted: Any = jax.jit(function, **options)
        static = options.get("static_argnums", ())

        def call(*arguments: Any) -> Any:
            shapes = []
            for number, argument in enumerate(arguments):
                if number in static:
                    shapes.append(argument)
                else:
                    shapes.append(jax.tree.map(_shape, argument))

            lowered = jitted.trace(*shapes).lower(lowering_platforms=("tpu",))
            record = {
                "function": getattr(function, "__qualname__", "?"),
                "bytes": len(lowered.as_text()),
            }
            self.shapes += counted
            self.lowered.append(record)
            shardings = options.get("out_shardings")
            if self.compiles:
                compiled = lowered.compile()
                cost = compiled.cost_analysis() or {}
                record["flop"] = cost.get("flops")
                memory = compiled.memory_analysis()
                record["temporary_bytes"] = memory.temp_size_in_bytes
                shardings = compiled.output_shardings

            result = lowered.out_info
            if shardings is None:
                return jax.tree.map(_shape_of, result)

            return jax.tree.map(
                _shape_of, result, jax.tree.broadcast(shardings, result)
            )

        return call


def _shape(value: Any) -> Any:
    """Return the shape and dtype of an argument, which is a shape already, an array or a number."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return value
    if not isinstance(value, jax.Array):
        value = np.asarray(value)

    return _shape_of(value)


def _shape_of(value: Any, sharding: Any = None) -> jax.ShapeDtypeStruct:
    """Return the shape and dtype of an array, with a sharding."""
    return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding)


def described(topology: str) -> list[Any]:
    """Return descriptions of the devices of a topology such as `v5e:2x4`.

    Raises:
        RuntimeUnavailableError: if libtpu is not installed, or does not know the topology.
    """
    try:
        description = topologies.get_topology_desc(
            platform="tpu", topology_name=topology
        )
        return list(description.devices)
    except Exception as error:  # the errors of libtpu have no common class
        raise RuntimeUnavailableError(
            f"XLA's compiler for TPUs does not know `{topology}` here: {error}; "
            "run `make tpu-compile`, which fetches `libtpu`, with a topology such as v5e:2x4"
        ) from error


def ahead(
    engine: JaxEngine,
    devices: list[Any],
    sharded: bool,
    compiles: bool,
) -> JaxEngine:
    """Return an engine like `engine`, for devices of which only descriptions exist."""
    layout = AheadLayout.over(devices, sharded)
    absent = attrs.evolve(
        engine.devices,
        layout=layout,
        processes=Processes(),
        compiled=AheadCompiled(compiles),
    )
    return JaxEngine(absent, engine.facts)


def lower_step(trainer: JaxTrainer, columns: Columns) -> list[dict[str, Any]]:
    """Lower or compile all functions of a training step, and return `AheadCompiled.lowered`.

    The trainer is one of an engine that `ahead` returned.
    """
    loss, _, next_state, gradients = trainer.backward(columns)
    trainer.update(gradients, next_state, loss, 0.0)
    compiled: Any = trainer.devices.compiled
    return list(compiled.lowered)
