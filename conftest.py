"""What all tests share, whichever distribution they are of."""

from __future__ import annotations

import gc
import os
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache, cached_property
from importlib.metadata import (
    EntryPoint,
    PackageMetadata,
    PathDistribution,
    distributions,
)
from itertools import chain, count
from pathlib import Path

import pytest

# Test files cannot import each other by name; the toy plugin, its fixtures and what supports tests of several
# distributions are modules like any other.
sys.path.insert(0, str(Path(__file__).parent / "core" / "tests" / "toy"))
sys.path.insert(0, str(Path(__file__).parent / "tests" / "support"))
pytest_plugins = ["toy_fixtures"]

_numbers = count()

# No test asks the hub: what would is refused at once, and tests of the hub name a server of their own.
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"

# JAX reads all of this when it starts: tests of several devices need them, others use the first; and what one
# test has compiled, others need not.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=8 --xla_llvm_disable_expensive_passes=true",
)
_compiled = tempfile.TemporaryDirectory(prefix="sentbed-xla-")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", _compiled.name)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the user's cache and configuration out, also of what is set up once for many tests."""
    directory = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENTBED_CACHE", str(directory / "session"))
        patch.delenv("SENTBED_CACHE_GB", raising=False)
        patch.delenv("SENTBED_PLUGINS_DISABLE", raising=False)
        yield directory


@pytest.fixture(scope="session", autouse=True)
def _no_power_failure() -> Iterator[None]:
    """Leave out `fsync`, for which a disk takes milliseconds: no test is about a machine that goes down."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


class _ReadOnce(PathDistribution):
    """A distribution whose metadata are parsed once, and not at each access."""

    @cached_property
    def metadata(self) -> PackageMetadata:
        """As that of `PathDistribution`."""
        return super().metadata


def _points_of_place(place: str, group: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of each distribution in a directory of `sys.path`."""
    points: dict[str, list[EntryPoint]] = {}
    for distribution in distributions(path=[place]):
        if type(distribution) is PathDistribution:
            distribution.__class__ = _ReadOnce
        points.setdefault(
            distribution.name, [*distribution.entry_points.select(group=group)]
        )
    return points


_points_of_environment = cache(_points_of_place)
"""As `_points_of_place`, for directories that do not change during the tests."""


def _installed_points(group: str) -> list[EntryPoint]:
    """As `entry_points`, but the environment, which has hundreds of files, is read once."""
    points_of_distributions: dict[str, list[EntryPoint]] = {}
    for place in sys.path:
        read = _points_of_place
        if place.startswith(sys.prefix):
            read = _points_of_environment
        # The distributions of an earlier place hide those of the same name.
        points_of_distributions = read(place, group) | points_of_distributions
    return [*chain.from_iterable(points_of_distributions.values())]


@pytest.fixture(scope="session", autouse=True)
def _one_environment() -> Iterator[None]:
    """Let recipes and commands find plugins without reading the environment again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sentbed._registry.registry.entry_points", _installed_points)
        yield


@pytest.fixture(autouse=True)
def _own_cache(_nothing_of_the_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a cache that no other test has filled."""
    monkeypatch.setenv("SENTBED_CACHE", str(_nothing_of_the_user / str(next(_numbers))))


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what lets the processor have these capabilities alone, as `torch.cpu` names them."""
    import torch

    def have(**capabilities: object) -> None:
        monkeypatch.delenv("SENTBED_INSTRUCTIONS", raising=False)
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)

    return have


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the seed."""
    parser.addoption(
        "--seed",
        type=int,
        default=0,
        help="seed of the generators that every test begins with",
    )


def _require_instructions(precision: str) -> None:
    """Skip a test on a processor without the instructions for a precision."""
    from sentbed_common import PRECISION_INSTRUCTIONS, present_instructions

    if not present_instructions(precision):
        names = " or ".join(PRECISION_INSTRUCTIONS[precision])
        pytest.skip(f"needs a processor with {precision} instructions: {names}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that the processor has no instructions for.

    Let others draw the same numbers whichever ran before; one that fails shows its seed.
    """
    for mark in item.iter_markers("instructions"):
        _require_instructions(*mark.args)
    seed = item.config.getoption("--seed")
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if torch := sys.modules.get("torch"):
        # `torch.manual_seed` keeps the stack of each call for GPUs to come, which takes a millisecond.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
    print(f"--seed {seed}")


FURTHER = frozenset(
    {"llama", "gpt2", "mistral", "roberta", "distilbert", "350m", "1.1"}
)
"""Architectures whose form has another family among the quick tests: BERT, T5 or OPT."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what repeats a quick test: further families of the same form, and the rest of a sweep."""
    words = {
        item: re.split(r"[-/\[\] ]", item.name.partition("[")[2]) for item in items
    }
    further = {item for item in items if FURTHER.intersection(words[item])}
    first: dict[str, pytest.Item] = {}
    """Test function -> its quick case: of a first family where it has one."""
    for item in sorted(items, key=further.__contains__):
        first.setdefault(item.nodeid.partition("[")[0], item)
    for item in further.difference(first.values()):
        item.add_marker(pytest.mark.slow)
    _slow_rest_of_sweeps(items)


def _slow_rest_of_sweeps(items: list[pytest.Item]) -> None:
    """Mark all but the first cases of a test with the mark `sweep` as slow."""
    quick_cases: Counter[str] = Counter()
    for item in items:
        sweep = item.get_closest_marker("sweep")
        if sweep is None or item.get_closest_marker("slow"):
            continue
        function = item.nodeid.partition("[")[0]
        (limit,) = sweep.args
        if quick_cases[function] == limit:
            item.add_marker(pytest.mark.slow)
        else:
            quick_cases[function] += 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is loaded for the whole session from being looked through for garbage again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # Tests leave little garbage behind, and each search for it walks through what all libraries have loaded.
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


UNREAD = {"gpu": "not gpu", "real": "not slow"}
"""Directory in `tests`, all of whose tests have a mark -> what leaves them out."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what no test would be run of: reading it loads libraries, in each worker.

    Files that load JAX are read only if its tests are asked for (`-m jax`).
    """
    chosen = config.option.markexpr
    if collection_path.name == "test_tpu.py":
        return True if chosen != "jax" else None
    unread = (
        collection_path.parent == Path(__file__).parent / "tests"
        and collection_path.name in UNREAD
    )
    return True if unread and UNREAD[collection_path.name] in chosen else None
