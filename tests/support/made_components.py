"""Make and check components of each distribution in a process of its own: `python made_components.py`.

It ends with the libraries that were loaded at the first distribution that loads one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import sentbed_backbones
import sentbed_data
import sentbed_hardware
import sentbed_losses
import sentbed_onnxruntime
import sentbed_openvino
import sentbed_poolers
import sentbed_tpu
import sentbed_trackers
from sentbed_testing import offered
from sentbed_testing.plugin_contract import HEAVY


def by_name(offers):
    return {component.name: component for component in offered(offers)}


def check(components):
    """Look for the problems of components, whether or not there are any."""
    for component in components:
        list(component.check())


def backbones():
    bert = by_name(sentbed_backbones.backbones())["bert"]
    check([bert(model="."), bert(model="some/model")])


def data():
    sources = by_name(sentbed_data.data_sources())
    assert not list(sources["sample"]().check())
    check(
        [
            sources["dropout"](path="hub:a/b"),
            sources["synonyms"](path="a.txt"),
            sources["nsp"](path="a.txt"),
        ]
    )


def hardware():
    by_name(sentbed_hardware.runtimes())["cpu"]()
    optimizers = by_name(sentbed_hardware.optimizers())
    optimizers["adamw"](lr=1e-3)
    optimizers["adafactor"]()
    factors = [
        schedule().factor(0, 10) for schedule in offered(sentbed_hardware.schedules())
    ]
    assert factors == [1.0] * 4 + [0.01]


def losses():
    classes = by_name(sentbed_losses.losses())
    outer = {"flops", "matryoshka", "sum"}
    simple = [classes[name]() for name in sorted({*classes} - outer)]
    classes["matryoshka"](loss=classes["sum"](losses=(simple[0],)), dimensions=(4,))


def poolers():
    assert [pooler() for pooler in offered(sentbed_poolers.poolers())]
    assert offered(sentbed_poolers.transforms())
    assert [each() for each in offered(sentbed_poolers.similarities())]


def runtimes():
    [onnx_runtime] = offered(sentbed_onnxruntime.runtimes())
    [openvino] = offered(sentbed_openvino.runtimes())
    [tpu] = offered(sentbed_tpu.runtimes())
    assert not list(onnx_runtime(precision="int8").check())
    assert not list(openvino(precision="int8", streams=2).check())
    assert not list(tpu().check())


def trackers():
    instances = [tracker() for tracker in offered(sentbed_trackers.trackers())]
    assert instances
    for tracker in instances:
        assert not list(tracker.check())
        tracker.build()


STEPS: list[Callable[[], None]] = [
    backbones,
    data,
    hardware,
    losses,
    poolers,
    runtimes,
    trackers,
]


def main():
    """Make the components; building one of them is what loads a library."""
    for step in STEPS:
        step()
        loaded = {*HEAVY} & {*sys.modules}
        assert not loaded, (step.__name__, loaded)
    offered(sentbed_poolers.poolers())[0]().build(4)
    assert "torch" in sys.modules


if __name__ == "__main__":
    main()
