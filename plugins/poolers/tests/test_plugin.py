from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import attrs
import pytest
import sentbed_poolers


def test_the_entry_point_names_the_package() -> None:
    found = [point.value for point in entry_points(group="sentbed") if point.dist.name == "sentbed-poolers"]
    assert found == ["sentbed_poolers"]


def test_the_hook_offers_the_poolers_by_name() -> None:
    assert [pooler.name for pooler in sentbed_poolers.poolers()] == ["first", "mean"]


@pytest.mark.parametrize("pooler", sentbed_poolers.poolers())
def test_a_component_is_frozen_and_equal_to_its_like(pooler: type) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        pooler().name = "other"
    assert pooler() == pooler()


def test_calling_the_hook_loads_no_heavy_library_and_building_does() -> None:
    code = (
        "import sys, sentbed_poolers\n"
        "built = [pooler() for pooler in sentbed_poolers.poolers()]\n"
        "assert len(built) == 2\n"
        "heavy = {'torch', 'transformers', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "built[0].build(4)\n"
        "assert 'torch' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
