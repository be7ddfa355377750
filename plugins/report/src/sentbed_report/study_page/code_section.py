"""Section on the code and versions with which the runs were made, if they are not the same for all runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sentbed_report.formatting import count, first_names
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.study_data import CellRun, StudyData


def code_section(data: StudyData) -> Section | None:
    """Return the section; None if all finished runs were made with the same code and versions.

    A distribution that only some cells use, such as a plugin with a loss, is compared among these cells.
    """
    versions_of: dict[str, set[str]] = {}
    codes = []
    for run in data.finished_runs:
        code = _code(run)
        codes.append((run, code))
        for name, version in code.items():
            versions_of.setdefault(name, set()).add(version)
    varying = sorted(name for name, used in versions_of.items() if len(used) > 1)
    if not varying:
        return None

    groups: dict[tuple[str, ...], list[CellRun]] = {}
    for run, code in codes:
        versions = tuple(_shown(code.get(name)) for name in varying)
        groups.setdefault(versions, []).append(run)
    rows = []
    for versions, runs in groups.items():
        rows.append((runs_and_cells(runs), *versions))

    names = ", ".join(varying)
    sentence = (
        f"Not all runs were made with the same code and versions, which may decide scores: {names}. The "
        "tables have all runs nevertheless."
    )
    title = "Version and first digits of the hash of the code"
    table = table_of(title, ["runs"], varying, rows)
    line = f"not the same in all runs: {names}"
    return Section("Code and versions", line, (sentence,), [table])


def _code(run: CellRun) -> Mapping[str, str]:
    """Return the versions and code hashes that a run recorded; empty if it was made before they were recorded."""
    code = run.manifest.get("code")
    if not isinstance(code, Mapping):
        return {}
    return {str(name): str(text) for name, text in code.items()}


def _shown(text: str | None) -> str:
    """Return a version with the first digits of the code's hash, for the table."""
    if text is None:
        return "not used"
    version, _, digest = text.partition(" ")
    return f"{version} {digest[:8]}".strip()


def runs_and_cells(runs: Sequence[CellRun]) -> str:
    """Return the number of runs, and the names of the first few cells to which the runs belong."""
    cells = list(dict.fromkeys(run.cell for run in runs))
    return f"{count(len(runs), 'run')}: {first_names(cells)}"
