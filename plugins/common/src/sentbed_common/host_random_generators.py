"""The states of the global random generators of Python and NumPy."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any


def host_generator_states() -> dict[str, Any]:
    """Return the states of the global generators of Python and NumPy, serialisable as JSON."""
    import numpy as np

    version, key, gauss = random.getstate()
    state: Any = np.random.get_state(legacy=False)
    twister = {"key": state["state"]["key"].tolist(), "pos": state["state"]["pos"]}
    return {"python": [version, list(key), gauss], "numpy": {**state, "state": twister}}


def restore_host_generators(states: Mapping[str, Any]) -> None:
    """Restore the generators to the states that `host_generator_states` returned."""
    import numpy as np

    version, key, gauss = states["python"]
    random.setstate((version, tuple(key), gauss))
    twister = states["numpy"]["state"]
    key = np.array(twister["key"], np.uint32)
    np.random.set_state({**states["numpy"], "state": {**twister, "key": key}})
