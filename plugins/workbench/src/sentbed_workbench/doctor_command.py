"""The command `doctor`: versions, devices, free memory and data of this machine."""

from __future__ import annotations

import importlib.util
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points, version

import click

LIBRARIES = ("torch", "transformers", "tokenizers", "peft", "jax", "mteb")


@click.command()
def doctor() -> None:
    """List versions, devices, free memory and data."""
    for subject, detail in [*_versions(), *_devices(), *_data()]:
        click.echo(f"{subject:<24}{detail}")


def _versions() -> Iterator[tuple[str, str]]:
    yield "Python", platform.python_version()
    plugins = {point.dist.name for point in entry_points(group="sentbed") if point.dist}
    for name in ("sentbed", *sorted(plugins), *LIBRARIES):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "not installed"


def _devices() -> Iterator[tuple[str, str]]:
    from sentbed.helpers import physical_memory, usable_cores
    from sentbed_common import memory_limit

    memory = memory_limit() or physical_memory() or 0
    yield "cpu", f"{usable_cores()} cores, {memory / 2**30:.1f} GiB"
    yield "disk", f"{shutil.disk_usage('.').free / 2**30:.1f} GiB free"
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        name = torch.cuda.get_device_name(index)
        memory_text = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
        yield f"cuda:{index}", f"{name}, {memory_text}"


def _data() -> Iterator[tuple[str, str]]:
    from sentbed.helpers import DATA_VARIABLE, data_root

    root = data_root()
    if root is None or not root.is_dir():
        yield DATA_VARIABLE, f"{root or 'not set'}: no directory"
        return
    names = sorted(entry.name for entry in root.iterdir())
    yield DATA_VARIABLE, f"{root}: {', '.join(names)}"
