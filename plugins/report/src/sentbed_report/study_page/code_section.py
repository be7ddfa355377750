"""Section on runs that were made with different code or versions than the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from sentbed_report.formatting import count, first_names
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.study_data import CellRun, StudyData


def code_section(data: StudyData) -> Section | None:
    """Return the section; None if all finished runs were made with the same code and versions.

    A distribution that only some cells use, such as that of a loss, is compared among those cells.
    """
    runs = [run for cell in data.cells for run in cell.runs if run.status == "finished"]
    codes = [*map(_code, runs)]
    names = sorted(set(chain.from_iterable(codes)))
    varying = [name for name in names if _varies(name, codes)]
    if not varying:
        return None
    groups: dict[tuple[str, ...], list[CellRun]] = {}
    for run, code in zip(runs, codes, strict=True):
        versions = tuple(_shown(code.get(name)) for name in varying)
        groups.setdefault(versions, []).append(run)
    rows = [(runs_and_cells(group), *versions) for versions, group in groups.items()]
    listed = ", ".join(varying)
    return Section(
        "Code and versions",
        f"not the same in all runs: {listed}",
        (
            f"The runs were not all made by the same code and versions, which may decide scores: {listed}. "
            "They stand in the same tables all the same.",
        ),
        [
            table_of(
                "Version and first digits of the hash of the code",
                ["runs"],
                varying,
                rows,
            )
        ],
    )


def _code(run: CellRun) -> Mapping[str, str]:
    """Return the versions and code hashes that a run recorded; empty for runs of earlier versions."""
    manifest = run.record.get("manifest")
    code = manifest.get("code") if isinstance(manifest, Mapping) else None
    if not isinstance(code, Mapping):
        return {}
    return {str(name): str(text) for name, text in code.items()}


def _varies(name: str, codes: Sequence[Mapping[str, str]]) -> bool:
    return len({code[name] for code in codes if name in code}) > 1


def _shown(text: str | None) -> str:
    if text is None:
        return "not used"
    version, _, digest = text.partition(" ")
    return f"{version} {digest[:8]}".strip()


def runs_and_cells(runs: Sequence[CellRun]) -> str:
    """Return the number of runs, and the names of the first of their cells."""
    cells = list(dict.fromkeys(run.cell for run in runs))
    return f"{count(len(runs), 'run')}: {first_names(cells)}"
