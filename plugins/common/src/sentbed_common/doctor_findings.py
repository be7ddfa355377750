"""Findings about a machine, for `sentbed doctor`: package versions, checks in a subprocess, slow checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, TypeAlias

import attrs
from sentbed.errors import RunError
from sentbed.tools import requirements

from sentbed_common.signal_names import signal_name

_MARK = "sentbed-answer:"


Status: TypeAlias = Literal["yes", "no", "limited"]
"""Whether a machine can do a thing; `limited`: in part, or more slowly."""


@attrs.frozen
class Finding:
    """Whether this machine can do one thing, for `sentbed doctor`."""

    area: str
    """Heading under which it is listed: `devices`, `precisions`, `attention`, `adapters`, ..."""
    what: str
    """Subject in a few words, such as `bf16` or `runtime cuda`."""
    status: Status
    detail: str = ""
    """Details, such as a version, a device's name or a number."""
    remedy: str = ""
    """Clause on how to get what is missing; empty if nothing can be done."""


@attrs.frozen
class Trial(Finding):
    """A finding that `sentbed doctor --try` replaces by the result of `attempt()`, which may take a minute."""

    attempt: Callable[[], Finding] = attrs.field(
        kw_only=True,
        eq=False,
        repr=False,
    )


def version_of(distribution: str) -> str | None:
    """Return the version of a distribution, or None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def packages(
    area: str,
    what: str,
    owner: str,
    names: Sequence[str],
    extra: str = "",
) -> Finding:
    """Return a finding on whether a feature's packages are installed in suitable versions.

    `names` are the distributions of these packages. `owner` is the distribution that requires them, in its
    `extra` if that is not empty.
    """
    specifiers = {}
    for requirement in requirements(owner, extra):
        specifiers[requirement.name] = requirement.specifier

    versions, missing, is_unfit = [], [], False
    for name in names:
        version = version_of(name)
        if version is None:
            missing.append(name)
            continue

        part = version
        if name != what:
            part = f"{name} {version}"
        specifier = specifiers.get(name)
        if specifier is not None and not specifier.contains(version, prereleases=True):
            is_unfit = True
            part += f", expected {specifier}"

        versions.append(part)

    if not missing and not is_unfit:
        return Finding(area, what, "yes", ", ".join(versions))

    install = "pip install"
    if is_unfit:
        install += " --upgrade"
    remedy = f"`{install} {owner}`"
    if extra:
        remedy = f"`{install} '{owner}[{extra}]'`"
    if not missing:
        return Finding(area, what, "limited", "; ".join(versions), remedy)

    versions.append(f"{', '.join(missing)} not installed")
    return Finding(area, what, "no", "; ".join(versions), remedy)


def present(
    area: str,
    what: str,
    there: bool,
    detail: str,
    remedy: str = "",
) -> Finding:
    """Return a finding with the status `yes` if `there` is true, else with the status `no` and the remedy."""
    if there:
        return Finding(area, what, "yes", detail)

    return Finding(area, what, "no", detail, remedy)


def elsewhere(
    function: Callable[[], Any],
    seconds: float,
    **environment: str,
) -> Any:
    """Call a module's function in a new process, where a crash or a hang does no harm; return its result.

    The result must be serialisable as JSON; `environment` is added to this process's environment.

    Raises:
        RunError: if the function fails, if its process is killed, or if it takes longer than `seconds`.
    """
    code = (
        f"import json\nfrom {function.__module__} import {function.__name__} as function\n"
        f"answer = json.dumps(function())\nprint('\\n{_MARK}' + answer)"
    )
    try:
        # With -P, no module in the current directory can stand in for a library.
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env={**os.environ, **environment},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(f"no answer within {seconds:g} s") from error

    # A library may print something, too, before or after the answer.
    answers = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode == 0 and answers:
        return json.loads(answers[-1].removeprefix(_MARK))

    if done.returncode < 0:
        raise RunError(f"the process was ended by {signal_name(-done.returncode)}")

    errors = done.stderr.strip().splitlines()
    if errors:
        raise RunError(errors[-1])

    raise RunError(f"the process ended with exit code {done.returncode}")
