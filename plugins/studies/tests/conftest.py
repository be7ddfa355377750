from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.metadata import distribution
from typing import TypeAlias

import pytest
from sentbed_studies import study_jobs
from sentbed_studies.shared_work_plan import Task

Fail: TypeAlias = Callable[[Callable[[Task], BaseException | None]], None]


@pytest.fixture(scope="session")
def toy_points(toy_points):
    """The entry points of the toy plugin, of core, and of the tools that a study needs."""
    tools = ("sentbed-report", "sentbed-studies", "sentbed-jobs", "sentbed-workbench")
    tool_points = [
        point
        for name in tools
        for point in distribution(name).entry_points.select(group="sentbed")
    ]
    return [*toy_points, *tool_points]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the first test of a file leaves a study for the others."""
    return tmp_path_factory.mktemp("kept") / "study"


@pytest.fixture
def copied(kept, tmp_path):
    """Return a copy of the study in `kept`, which a function makes there for the first test of a file."""

    def copy(make):
        if not kept.exists():
            make(kept)
        return shutil.copytree(kept, tmp_path / "copy" / "study")

    return copy


@pytest.fixture
def directory(tmp_path):
    """Where a study is to be run."""
    return tmp_path / "study"


@pytest.fixture
def fail(monkeypatch):
    """Let tasks of a study fail with the errors that a function returns."""
    work = study_jobs._run

    def install(error_of):
        def run(place, plugins, task, *rest):
            error = error_of(task)
            if error is not None:
                raise error
            work(place, plugins, task, *rest)

        monkeypatch.setattr(study_jobs, "_run", run)

    return install
