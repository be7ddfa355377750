"""Which cells of a study were run, where a sampler chose them."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed_report.formatting import number
from sentbed_report.study.deciding_score import Decide, deciding_scores, mean_of, without_mean
from sentbed_report.study.study_data import StudyData
from sentbed_report.study_page.sections import Section, SectionRow, SectionTable


def sampled_cells(data: StudyData) -> Iterator[Section]:
    """Yield the section: how many cells were run of how many, in which order, and with which scores."""
    if (sampled := data.sampled) is None:
        return
    seed = data.seeds[0] if data.seeds else None
    scores = {
        cell.name: mean_of(scores)
        for cell in data.cells
        for run in cell.runs
        if run.seed == seed
        and not without_mean(scores := deciding_scores(run.scores, data.decide or Decide()))
    }
    table = SectionTable(
        f"In the order in which they were chosen, with the mean of the deciding scores of seed {seed}",
        ("cell", "chosen", "score"),
        tuple(
            SectionRow(name, (str(place), number(scores.get(name))), name)
            for place, name in enumerate(sampled.names, 1)
        ),
        (1, 2),
    )
    before = sum(cell.name not in sampled.names for cell in data.cells)
    more = f" {before:,} more {'was' if before == 1 else 'were'} run before." if before else ""
    sentences = [f"{sampled}.{more} Nothing is known of the others."]
    if (left := sampled.cells - len(sampled.names)) > 0:
        sentences.append(f"The study is to run {left:,} more.")
    yield Section("Sampled cells", tuple(sentences), (table,))
