"""Compiling ahead of time for absent devices, with shapes instead of arrays."""

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
    """A layout over devices that exist only as descriptions."""

    def place(self, value: Any, sharding: Any) -> Any:
        """Return the shape of the array, with its sharding."""
        host = np.asarray(value)
        return jax.ShapeDtypeStruct(
            host.shape, jax.dtypes.canonicalize_dtype(host.dtype), sharding=sharding
        )


class AheadCompiled(Compiled):
    """Lowers every function that is called to the platform `tpu`, and compiles it if `compiles` is true.

    `lowered` has the name of each, the size of its text in bytes and, once compiled, XLA's own counts.
    """

    def __init__(self, compiles: bool) -> None:
        super().__init__()
        self.compiles = compiles
        self.lowered: list[dict[str, Any]] = []

    def jit(
        self, function: Callable[..., Any], counted: bool = False, **options: Any
    ) -> Callable[..., Any]:
        """Return a function that takes and returns shapes."""
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
    """Return the shape of an argument, which may be a number."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return value
    if not isinstance(value, jax.Array):
        value = np.asarray(value)

    return _shape_of(value)


def _shape_of(value: Any, sharding: Any = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding)


def described(topology: str) -> list[Any]:
    """Return the devices of a topology such as `v5e:2x4`; raises `RuntimeUnavailableError` without libtpu."""
    try:
        description = topologies.get_topology_desc(
            platform="tpu", topology_name=topology
        )
        return list(description.devices)
    except Exception as error:  # what libtpu raises for want of itself or of a topology has no common class
        raise RuntimeUnavailableError(
            f"XLA's compiler for TPUs does not know `{topology}` here: {error}; "
            "run `make tpu-compile`, which fetches `libtpu`, with a topology such as v5e:2x4"
        ) from error


def ahead(
    engine: JaxEngine, devices: list[Any], sharded: bool, compiles: bool
) -> JaxEngine:
    """Return an engine like `engine` for devices that exist only as descriptions."""
    layout = AheadLayout.over(devices, sharded)
    absent = attrs.evolve(
        engine.devices,
        layout=layout,
        processes=Processes(),
        compiled=AheadCompiled(compiles),
    )
    return JaxEngine(absent, engine.facts)


def lower_step(trainer: JaxTrainer, columns: Columns) -> list[dict[str, Any]]:
    """Lower, or compile, all functions of one training step of an `ahead` engine, and return their facts."""
    loss, _, after, gradients = trainer.backward(columns)
    trainer.update(gradients, after, loss, 0.0)
    compiled: Any = trainer.devices.compiled
    return list(compiled.lowered)
