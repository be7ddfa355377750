"""Diagnosis of this machine: which parts of sentbed it can run, as found by this module and by plugins."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import attrs
from sentbed.errors import PluginError, SentbedError
from sentbed.tools import requirements
from sentbed_common import Finding, Status, Trial, version_of

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
"""Areas in the order in which they are shown. Other areas follow in alphabetical order."""

SMALL_SHARED_MEMORY = 1 << 30
"""Bytes of shared memory below which several processes may run out of it; containers get 64 MiB by default."""
SMALL_DISK = 5e9
"""Bytes of free disk space below which cached vectors alone may fill the disk."""


@attrs.frozen
class Diagnosis:
    """Everything that was found about this machine."""

    findings: tuple[Finding, ...]
    """Findings, grouped by area."""
    broken: tuple[str, ...]
    """`DISTRIBUTION:NAME` of each plugin that cannot be loaded or whose checks raised an exception.

    `plugins` alone if no plugin could be loaded.
    """
    untried: tuple[str, ...]
    """Subjects of the trials that were not made, since only `--try` makes them; empty with `--try`."""


def examine(
    attempt: bool = False, load: Callable[[], Plugins] | None = None
) -> Diagnosis:
    """Examine this machine. With `attempt`, also make trials: checks that take longer or need the network.

    If a check raises an exception, a finding says so, and the other checks go on.
    """
    from sentbed.tools import load_plugins

    findings: list[Finding] = []
    broken: list[str] = []
    for area, subject, check in _CHECKS:
        findings += _findings_of(area, subject, check)

    try:
        plugins = (load or load_plugins)()
    except PluginError as error:
        broken.append("plugins")
        findings.append(Finding("installation", "plugins", "no", str(error)))
    else:
        for info in plugins.plugins:
            if info.problem:
                broken.append(f"{info.distribution}:{info.name}")
        findings += _findings_of(
            "installation", "plugins", lambda: _distributions(plugins)
        )
        for name, plugin_findings in _plugin_findings(plugins):
            if any(isinstance(finding, _Failed) for finding in plugin_findings):
                broken.append(name)
            findings += plugin_findings

    untried: list[str] = []
    for number, finding in enumerate(findings):
        if not isinstance(finding, Trial):
            continue
        if attempt:
            findings[number] = _result_of(finding)
        else:
            untried.append(finding.what)

    findings.sort(key=lambda finding: _place(finding.area))
    return Diagnosis(tuple(findings), tuple(broken), tuple(untried))


class _Failed(Finding):
    """Finding of a check that raised an exception."""


def _findings_of(
    area: str,
    what: str,
    check: Callable[[], Iterable[Finding]],
) -> list[Finding]:
    """Return the findings of a check, or a single one if the check raises an exception."""
    try:
        return list(check())
    except Exception as error:  # noqa: BLE001 - a failed check must not hide other findings
        return [_Failed(area, what, "no", f"could not look: {_error_text(error)}")]


def _plugin_findings(plugins: Plugins) -> Iterator[tuple[str, list[Finding]]]:
    """Yield name and findings of each plugin. Checks run concurrently, since most of them wait for a process."""
    with ThreadPoolExecutor() as pool:
        futures = {}
        for implementation in plugins.manager.hook.findings.get_hookimpls():
            name = implementation.plugin_name
            check = partial(_call_hook, implementation, plugins)
            futures[name] = pool.submit(
                _findings_of, "installation", f"findings of {name}", check
            )
        for name in sorted(futures):
            yield name, futures[name].result()


def _call_hook(implementation: pluggy.HookImpl, plugins: Plugins) -> list[Finding]:
    """Return what a plugin's hook `findings` returns. Raises `TypeError` unless these are `Finding` objects."""
    arguments = []
    if implementation.argnames:
        arguments = [plugins]
    findings: list[Any] = list(implementation.function(*arguments))  # type: ignore[call-overload]
    for finding in findings:
        _require_finding(finding, "the hook")
    return findings


def _require_finding(value: object, source: str) -> None:
    """Raise `TypeError` if what a plugin returned is no `Finding` that can be shown."""
    if not isinstance(value, Finding) or value.status not in get_args(Status):
        raise TypeError(f"{source} returned {value!r}, expected a `Finding`")


def _result_of(trial: Trial) -> Finding:
    """Make a trial, and return its finding. If the trial raises an exception, the finding says which."""
    try:
        finding = trial.attempt()
        _require_finding(finding, "the trial")
    except Exception as error:  # noqa: BLE001 - a trial may fail in any way
        detail = f"{trial.detail}; tried: {_error_text(error)}"
        return Finding(trial.area, trial.what, "no", detail, trial.remedy)
    return finding


def _error_text(error: Exception) -> str:
    if isinstance(error, SentbedError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _place(area: str) -> tuple[int, str]:
    """Return the sort key of an area; see `AREAS`."""
    if area in AREAS:
        return AREAS.index(area), ""
    return len(AREAS), area


# The checks of this module. Each returns or yields findings.


def _distributions(plugins: Plugins) -> Iterator[Finding]:
    """Yield a finding per installed distribution with plugins, and per missing distribution of sentbed."""
    from sentbed.tools import catalog

    problems: defaultdict[str, list[str]] = defaultdict(list)
    disabled: defaultdict[str, list[str]] = defaultdict(list)
    installed = ["sentbed"]
    for info in plugins.plugins:
        installed.append(info.distribution)
        if info.status == "disabled":
            disabled[info.distribution].append(f"`{info.name}` is {info.reason}")
        if info.problem:
            problem = f"`{info.name}` cannot be loaded: {info.problem}"
            problems[info.distribution].append(problem)

    for name in dict.fromkeys(installed):
        yield _distribution(name, problems[name], disabled[name])
    for name in sorted(set(catalog()) - set(installed)):
        yield Finding(
            "installation", name, "no", "not installed", f"`pip install {name}`"
        )


def _distribution(
    name: str,
    problems: Sequence[str],
    disabled: Sequence[str],
) -> Finding:
    """Return the finding of an installed distribution."""
    unmet = _unmet_requirements(name)
    status: Status = "yes"
    remedy = ""
    if unmet:
        remedy = f"`pip install --upgrade {name}`"
    if unmet or disabled:
        status = "limited"
    if problems:
        status = "no"
        remedy = f"`pip install --force-reinstall {name}`, or `pip uninstall {name}`"
    version = version_of(name) or "of unknown version"
    detail = "; ".join([version, *problems, *unmet, *disabled])
    return Finding("installation", name, status, detail, remedy)


def _unmet_requirements(distribution: str) -> list[str]:
    """Return a message for each unmet requirement of an installed distribution."""
    problems = []
    for requirement in requirements(distribution):
        version = version_of(requirement.name)
        specifier = requirement.specifier
        if version is None or not specifier.contains(version, prereleases=True):
            problems.append(
                f"needs {requirement.name}{specifier}, found {version or 'none'}"
            )
    return problems


def _python() -> Iterator[Finding]:
    yield Finding(
        "installation",
        "Python",
        "yes",
        f"{platform.python_version()}, {sys.executable}",
    )


def _machine() -> Iterator[Finding]:
    yield _cores()
    yield from _memory()
    shared = Path("/dev/shm")
    if shared.is_dir():
        yield _shared_memory(shared)


def _cores() -> Finding:
    from sentbed.helpers import usable_cores
    from sentbed_common import core_quota

    usable, all_cores, quota = usable_cores(), os.cpu_count() or 1, core_quota()
    detail = f"{usable} of {all_cores} usable"
    status: Status = "yes"
    if usable < all_cores:
        status = "limited"
    if quota is not None and quota < usable:
        status = "limited"
        detail += f", time of {quota:g} granted"
    return Finding("machine", "cores", status, detail)


def _memory() -> Iterator[Finding]:
    from sentbed.helpers import physical_memory
    from sentbed_common import memory_limit

    physical, limit = physical_memory(), memory_limit()
    if limit is not None:
        detail = _gib(limit)
        if physical is not None:
            detail += f" of {_gib(physical)}"
        yield Finding(
            "machine", "memory", "limited", f"{detail}, the limit of the control group"
        )
    elif physical is not None:
        yield Finding("machine", "memory", "yes", _gib(physical))


def _shared_memory(directory: Path) -> Finding:
    size = shutil.disk_usage(directory).total
    detail = f"{_gib(size)}, {directory}"
    if size < SMALL_SHARED_MEMORY:
        remedy = "`docker run --shm-size=8g`, or `mount -o remount,size=8g /dev/shm`"
        return Finding("machine", "shared memory", "limited", detail, remedy)
    return Finding("machine", "shared memory", "yes", detail)


def _disks() -> Iterator[Finding]:
    from sentbed_common import CACHE_VARIABLE, cache_root

    yield _disk("disk for runs", Path("runs"), "`--out DIR`")
    yield _disk("disk for the cache", cache_root(), f"`export {CACHE_VARIABLE}=DIR`")


def _disk(
    what: str,
    place: Path,
    elsewhere: str,
) -> Finding:
    place = place.absolute()
    existing = next(path for path in (place, *place.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        detail = f"`{existing}` cannot be written to"
        return Finding("machine", what, "no", detail, f"{elsewhere} for another place")
    free = shutil.disk_usage(existing).free
    detail = f"{_gb(free)} free, {place}"
    if free < SMALL_DISK:
        return Finding(
            "machine",
            what,
            "limited",
            detail,
            f"free some, or {elsewhere} for another place",
        )
    return Finding("machine", what, "yes", detail)


def _data_directory() -> Iterator[Finding]:
    from sentbed.helpers import DATA_VARIABLE, data_root

    root = data_root()
    if root is None:
        yield Finding(
            "data", DATA_VARIABLE, "no", "not set", f"`export {DATA_VARIABLE}=DIR`"
        )
    elif not root.is_dir():
        yield Finding(
            "data",
            DATA_VARIABLE,
            "no",
            f"{root} is not a directory",
            f"`mkdir -p {root}`",
        )
    else:
        yield Finding("data", DATA_VARIABLE, "yes", str(root))


def _vectors() -> Iterator[Finding]:
    """Yield a finding about the cache of vectors."""
    from sentbed_workbench.cache_contents import contents, totals
    from sentbed_workbench.vector_cache import LIMIT_VARIABLE, VectorCache

    store = VectorCache()
    size, vectors = totals(contents(store))
    detail = f"{_gb(size)} of {_gb(store.limit)}, {vectors:,} vectors, {store.root}"
    if store.limit:
        yield Finding("data", "kept vectors", "yes", detail)
    else:
        yield Finding(
            "data", "kept vectors", "no", detail, f"`export {LIMIT_VARIABLE}=5`"
        )


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


_CHECKS: Sequence[tuple[str, str, Callable[[], Iterable[Finding]]]] = (
    ("installation", "Python", _python),
    ("machine", "cores and memory", _machine),
    ("machine", "disk", _disks),
    ("data", "data directory", _data_directory),
    ("data", "kept vectors", _vectors),
)
