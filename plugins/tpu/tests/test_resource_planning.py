from __future__ import annotations

import pytest
from sentbed import RuntimeUnavailableError
from sentbed_hardware.peak_rates import find
from sentbed_tpu.peak_rates import TPU
from sentbed_tpu.tpu import Tpu


@pytest.mark.parametrize(
    ("runtime", "on", "memory", "flops"),
    [
        (Tpu(), "TPU v5 lite", 16e9, 197e12),
        (Tpu(), "v5e", 16e9, 197e12),
        (Tpu(precision="auto"), "v5e", 16e9, 197e12),
        (Tpu(precision="fp32"), "v4", 32e9, 275e12 / 6),
    ],
    ids=str,
)
def test_a_device_is_found_by_its_name(
    runtime: Tpu, on: str, memory: float, flops: float
) -> None:
    device = runtime.outline(on)
    assert device.memory == memory
    assert device.flops == pytest.approx(flops)
    assert device.precision != "auto"


def test_devices_of_all_machines_count() -> None:
    device = Tpu(devices=4, nodes=2, rendezvous="a:1", parallel="fsdp").outline("v4")
    assert (device.kind, device.count, device.parallel, device.token_budget) == (
        "tpu",
        8,
        "fsdp",
        16384,
    )


def test_without_a_name_one_is_asked_for() -> None:
    with pytest.raises(
        RuntimeUnavailableError,
        match="no TPU that can be asked here; name one with `--on`",
    ):
        Tpu().outline()


def test_an_unknown_device_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(
        RuntimeUnavailableError,
        match=r"`H100` for the runtime `tpu`; it knows v6e, v5p",
    ):
        Tpu().outline("H100")


def test_the_platform_for_trying_out_is_not_planned() -> None:
    with pytest.raises(
        RuntimeUnavailableError, match="the platform `cpu` is there to try the path out"
    ):
        Tpu(platform="cpu").outline("v5e")


def test_every_name_of_the_table_finds_itself() -> None:
    assert TPU
    for peak in TPU:
        assert find(peak.name, TPU) is peak
    assert find("GeForce 256", TPU) is None
