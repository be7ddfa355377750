"""The sharding of arrays over the devices, which are a one-dimensional mesh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "data"


@attrs.frozen
class Layout:
    """How arrays are sharded over devices. Batches are always sharded by rows, weights only if `sharded`."""

    mesh: Mesh
    sharded: bool

    @classmethod
    def over(cls, devices: list[Any], sharded: bool) -> Layout:
        """Return the layout over these devices. Weights on a single device are never sharded."""
        return cls(Mesh(np.array(devices), (AXIS,)), sharded and len(devices) > 1)

    @property
    def whole(self) -> NamedSharding:
        """The sharding in which each device has the whole array."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def rows(self) -> NamedSharding:
        """The sharding in which each device has an equal share of the first axis."""
        return NamedSharding(self.mesh, PartitionSpec(AXIS))

    @property
    def rows_of_passes(self) -> NamedSharding:
        """The sharding in which each device has an equal share of the second axis."""
        return NamedSharding(self.mesh, PartitionSpec(None, AXIS))

    def weight(self, shape: tuple[int, ...]) -> NamedSharding:
        """Return the sharding of a weight with this shape.

        It is sharded along its longest axis whose size is a multiple of the number of devices. If there is no
        such axis, each device has the whole weight.
        """
        if not self.sharded:
            return self.whole

        longest = None
        for axis, size in enumerate(shape):
            divides_evenly = size > 0 and size % self.mesh.size == 0
            if divides_evenly and (longest is None or size > shape[longest]):
                longest = axis

        if longest is None:
            return self.whole

        before = [None] * longest
        return NamedSharding(self.mesh, PartitionSpec(*before, AXIS))

    def put(self, arrays: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Return weights on the devices."""
        placed = {}
        for name, value in arrays.items():
            placed[name] = jax.device_put(value, self.weight(value.shape))

        return placed


def put_wide(value: Any, sharding: Any) -> jax.Array:
    """Return an array on the devices that keeps integers of 64 bits, such as the ids of texts.

    JAX computes with them as they are, and only makes no new ones.
    """
    with jax.enable_x64(True):
        placed: jax.Array = jax.device_put(value, sharding)
        return placed
