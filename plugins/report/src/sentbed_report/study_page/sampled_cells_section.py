"""Section on the cells of a study that a sampler chose."""

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
    """Return the section with the chosen cells in order and their scores; None in a study without a sampler."""
    sampled = data.sampled
    if sampled is None:
        return None

    seed = next(iter(data.seeds), None)
    scores = _deciding_scores(data, seed)
    digits = score_digits(score for score in scores.values() if score is not None)
    columns = (Column("chosen", form="count"), Column("score", digits=digits))
    rows = []
    for number, name in enumerate(sampled.names, start=1):
        rows.append((name, number, scores.get(name)))

    earlier = [cell for cell in data.cells if cell.name not in sampled.names]
    more = ""
    if earlier:
        verb = "was" if len(earlier) == 1 else "were"
        more = f" {len(earlier):,} more {verb} run before."
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
    """Return cell -> mean of the cell's deciding scores under a seed; cells without a mean are left out."""
    means = {}
    for cell in data.cells:
        for run in cell.runs:
            if run.seed != seed:
                continue
            scores = deciding_scores(run.scores, data.decide or Decide())
            if not without_mean(scores):
                means[cell.name] = mean_of(scores)
    return means
