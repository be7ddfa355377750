"""Diagnosis of what this machine can run: findings of all plugins and of core."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import PluginError, SentbedError
from sentbed.tools import requirements
from sentbed_common import Finding, Trial, version_of

if TYPE_CHECKING:
    import pluggy
    from sentbed.tools import Plugins

AREAS = (
    "installation",
    "machine",
    "runtimes",
    "devices",
    "precisions",
    "attention",
    "compile",
    "processes",
    "models",
    "adapters",
    "hub",
    "data",
    "evaluators",
    "trackers",
    "executors",
)
"""Order in which areas are shown; other areas follow in alphabetical order."""

SMALL_SHARED_MEMORY = 1 << 30
"""Bytes of shared memory that are too few for several processes; containers get 64 MiB by default."""
SMALL_DISK = 5e9
"""Bytes of free disk space that vectors alone may fill."""


@attrs.frozen
class Diagnosis:
    """All findings."""

    findings: tuple[Finding, ...]
    """Findings, grouped by area."""
    broken: tuple[str, ...]
    """Plugins that cannot be loaded or whose checks failed, as `DISTRIBUTION:NAME`."""
    untried: tuple[str, ...]
    """Subjects that `--try` would check."""


def examine(attempt: bool = False, load: Callable[[], Plugins] | None = None) -> Diagnosis:
    """Examine this machine; with `attempt`, also run checks that take longer or need the network.

    A check that fails becomes a finding, and does not stop the others.
    """
    from sentbed.tools import load_plugins

    findings: list[Finding] = []
    broken: list[str] = []
    for area, what, check in _OWN:
        findings += _guarded(area, what, check)
    try:
        plugins = (load or load_plugins)()
    except PluginError as error:
        broken.append("plugins")
        findings.append(Finding("installation", "plugins", "no", str(error)))
    else:
        broken += [f"{info.distribution}:{info.name}" for info in plugins.plugins if info.problem]
        findings += _guarded("installation", "plugins", lambda: _distributions(plugins))
        for name, plugin_findings in _plugin_findings(plugins):
            if any(isinstance(finding, _Failed) for finding in plugin_findings):
                broken.append(name)
            findings += plugin_findings
    trials = [finding for finding in findings if isinstance(finding, Trial)]
    if attempt:
        findings = [_tried(finding) if isinstance(finding, Trial) else finding for finding in findings]
    return Diagnosis(
        tuple(sorted(findings, key=lambda finding: _place(finding.area))),
        tuple(broken),
        () if attempt else tuple(trial.what for trial in trials),
    )


class _Failed(Finding):
    """Finding for a check that failed."""


def _guarded(area: str, what: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except Exception as error:  # noqa: BLE001 - what one look stumbles over must not hide what others find
        return [_Failed(area, what, "no", f"could not look: {_error_text(error)}")]


def _plugin_findings(plugins: Plugins) -> Iterator[tuple[str, list[Finding]]]:
    """Yield the findings of each plugin; checks run concurrently, as most wait for a process."""
    with ThreadPoolExecutor() as pool:
        futures = {}
        for implementation in plugins.manager.hook.findings.get_hookimpls():
            name, check = implementation.plugin_name, partial(_checked, implementation, plugins)
            futures[name] = pool.submit(_guarded, "installation", f"findings of {name}", check)
        yield from ((name, future.result()) for name, future in sorted(futures.items()))


def _checked(implementation: pluggy.HookImpl, plugins: Plugins) -> list[Finding]:
    """Return the findings of one plugin. Raises `TypeError` if the result is not a sequence of findings."""
    arguments = [plugins] if implementation.argnames else []
    findings: list[Any] = list(implementation.function(*arguments))  # type: ignore[call-overload]
    for finding in findings:
        if not isinstance(finding, Finding):
            raise TypeError(f"the hook returned {finding!r}, expected a `Finding`")
    return findings


def _tried(trial: Trial) -> Finding:
    try:
        return trial.attempt()
    except Exception as error:  # noqa: BLE001 - what is tried may fail in any way
        detail = f"{trial.detail}; tried: {_error_text(error)}"
        return Finding(trial.area, trial.what, "no", detail, trial.remedy)


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, SentbedError) else f"{type(error).__name__}: {error}"


def _place(area: str) -> tuple[int, str]:
    return (AREAS.index(area), "") if area in AREAS else (len(AREAS), area)


# Core's own checks; each returns or yields findings.


def _distributions(plugins: Plugins) -> Iterator[Finding]:
    """Yield a finding per distribution with plugins: installed ones, then ours that are not installed."""
    from sentbed.tools import catalog

    installed: dict[str, list[str]] = {"sentbed": []}
    disabled: dict[str, list[str]] = {}
    for info in plugins.plugins:
        if info.status == "disabled":
            disabled.setdefault(info.distribution, []).append(f"`{info.name}` is {info.reason}")
        problems = installed.setdefault(info.distribution, [])
        problems += [f"`{info.name}` cannot be loaded: {info.problem}"] if info.problem else []
    for name, problems in installed.items():
        version, lacks = version_of(name) or "of unknown version", _unmet(name)
        off = disabled.get(name, [])
        detail = "; ".join([version, *problems, *lacks, *off])
        remedy = f"`pip install --force-reinstall {name}`, or `pip uninstall {name}`" if problems else ""
        remedy = remedy or (f"`pip install --upgrade {name}`" if lacks else "")
        limited = bool(lacks or off)
        yield Finding(
            "installation", name, "no" if problems else "limited" if limited else "yes", detail, remedy
        )
    for name in sorted(set(catalog()) - installed.keys()):
        yield Finding("installation", name, "no", "not installed", f"`pip install {name}`")


def _python() -> Iterator[Finding]:
    yield Finding("installation", "Python", "yes", f"{platform.python_version()}, {sys.executable}")


def _machine() -> Iterator[Finding]:
    from sentbed.helpers import physical_memory, usable_cores
    from sentbed_common import core_quota, memory_limit

    usable, all_cores, quota = usable_cores(), os.cpu_count() or 1, core_quota()
    granted = quota is not None and quota < usable
    detail = f"{usable} of {all_cores} usable" + (f", time of {quota:g} granted" if granted else "")
    yield Finding("machine", "cores", "limited" if granted or usable < all_cores else "yes", detail)
    physical, limit = physical_memory(), memory_limit()
    if limit is not None:
        of = "" if physical is None else f" of {_gib(physical)}"
        yield Finding("machine", "memory", "limited", f"{_gib(limit)}{of}, the limit of the control group")
    elif physical is not None:
        yield Finding("machine", "memory", "yes", _gib(physical))
    shared = Path("/dev/shm")
    if shared.is_dir():
        size = shutil.disk_usage(shared).total
        small = size < SMALL_SHARED_MEMORY
        remedy = "`docker run --shm-size=8g`, or `mount -o remount,size=8g /dev/shm`" if small else ""
        yield Finding(
            "machine", "shared memory", "limited" if small else "yes", f"{_gib(size)}, {shared}", remedy
        )


def _disks() -> Iterator[Finding]:
    from sentbed_common import CACHE_VARIABLE, cache_root

    yield _disk("disk for runs", Path("runs"), "`--out DIR`")
    yield _disk("disk for the cache", cache_root(), f"`export {CACHE_VARIABLE}=DIR`")


def _disk(what: str, place: Path, elsewhere: str) -> Finding:
    place = place.absolute()
    there = next(path for path in (place, *place.parents) if path.exists())
    if not os.access(there, os.W_OK):
        return Finding(
            "machine", what, "no", f"`{there}` cannot be written to", f"{elsewhere} for another place"
        )
    free = shutil.disk_usage(there).free
    small = free < SMALL_DISK
    remedy = f"free some, or {elsewhere} for another place" if small else ""
    return Finding("machine", what, "limited" if small else "yes", f"{_gb(free)} free, {place}", remedy)


def _data_directory() -> Iterator[Finding]:
    from sentbed.helpers import DATA_VARIABLE, data_root

    root = data_root()
    if root is None:
        yield Finding("data", DATA_VARIABLE, "no", "not set", f"`export {DATA_VARIABLE}=DIR`")
    elif not root.is_dir():
        yield Finding("data", DATA_VARIABLE, "no", f"{root} is not a directory", f"`mkdir -p {root}`")
    else:
        yield Finding("data", DATA_VARIABLE, "yes", str(root))


def _vectors() -> Iterator[Finding]:
    from sentbed_workbench.cache_contents import held
    from sentbed_workbench.vector_cache import LIMIT_VARIABLE, VectorCache

    store = VectorCache()
    spaces = held(store)
    size, vectors = sum(space.size for space in spaces), sum(space.vectors for space in spaces)
    detail = f"{_gb(size)} of {_gb(store.limit)}, {vectors:,} vectors, {store.root}"
    remedy = "" if store.limit else f"`export {LIMIT_VARIABLE}=5`"
    yield Finding("data", "kept vectors", "yes" if store.limit else "no", detail, remedy)


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


_OWN: Sequence[tuple[str, str, Callable[[], Iterable[Finding]]]] = (
    ("installation", "Python", _python),
    ("machine", "cores and memory", _machine),
    ("machine", "disk", _disks),
    ("data", "data directory", _data_directory),
    ("data", "kept vectors", _vectors),
)


def _unmet(distribution: str) -> list[str]:
    """Return a message for each unmet requirement of an installed distribution."""
    problems = []
    for requirement in requirements(distribution):
        version = version_of(requirement.name)
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            problems.append(f"needs {requirement.name}{requirement.specifier}, found {version or 'none'}")
    return problems
