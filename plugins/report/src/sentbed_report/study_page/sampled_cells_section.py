"""Section on the cells that a sampler chose."""

from __future__ import annotations

from sentbed.helpers import score_digits

from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.deciding_score import (
    Decide,
    deciding_scores,
    mean_of,
    without_mean,
)
from sentbed_report.study.study_data import StudyData
from sentbed_report.tables.column import Column


def sampled_cells_section(data: StudyData) -> Section | None:
    """Return the section with the chosen cells in order, and their scores; None in a study without sampler."""
    sampled = data.sampled
    if sampled is None:
        return None
    seed = data.seeds[0] if data.seeds else None
    scores = _deciding_scores(data, seed)
    digits = score_digits(score for score in scores.values() if score is not None)
    columns = (Column("chosen", form="count"), Column("score", digits=digits))
    rows = []
    for number, name in enumerate(sampled.names, start=1):
        rows.append((name, number, scores.get(name)))
    before = 0
    for cell in data.cells:
        if cell.name not in sampled.names:
            before += 1
    more = ""
    if before:
        verb = "was" if before == 1 else "were"
        more = f" {before:,} more {verb} run before."
    sentences = [f"{sampled}.{more} Nothing is known of the others."]
    left = sampled.cells - len(sampled.names)
    if left > 0:
        sentences.append(f"The study is to run {left:,} more.")
    title = f"In the order in which they were chosen, with the mean of the deciding scores of seed {seed}"
    return Section(
        "Sampled cells",
        str(sampled),
        sentences,
        [table_of(title, ["cell"], columns, rows)],
    )


def _deciding_scores(data: StudyData, seed: int | None) -> dict[str, float | None]:
    """Return the deciding score of each cell under a seed; cells whose scores have no mean are left out."""
    means = {}
    for cell in data.cells:
        for run in cell.runs:
            if run.seed != seed:
                continue
            scores = deciding_scores(run.scores, data.decide or Decide())
            if not without_mean(scores):
                means[cell.name] = mean_of(scores)
    return means
