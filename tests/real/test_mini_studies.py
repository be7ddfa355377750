"""The mini studies on real files: some cells of two of them, with few steps."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.read_study_directory import read_data
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from sentbed_studies.study_reports import write_reports

STUDIES = Path(__file__).parents[2] / "recipes" / "mini" / "studies"
pytestmark = pytest.mark.usefixtures("data_directory")


@pytest.fixture
def passes(monkeypatch):
    """The number of texts in each pass through a backbone."""
    rows = []
    forward = TorchEncoder._forward

    def count(encoder, batch):
        rows.append(len(batch.input_ids))
        return forward(encoder, batch)

    monkeypatch.setattr(TorchEncoder, "_forward", count)
    return rows


@pytest.mark.usefixtures("minilm")
def test_cells_over_one_frozen_backbone_read_each_sentence_once(
    tmp_path, monkeypatch, passes
):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    settings = ['evaluate.0.tasks=["STSB-dev"]', "runtime.precision=fp32"]
    study = read_study(STUDIES / "poolers.toml", settings)
    result = run_study(
        study, tmp_path / "study", only=[{"pooler": ("mean", "first"), "head": "none"}]
    )

    assert not result.failed

    data = read_data(result.directory)
    scores = {
        cell.name: cell.runs[0].scores
        for cell in data.cells
        if cell.runs[0].status == "finished"
    }

    assert set(scores) == {"mean, none", "first, none"}

    (mean,), (first,) = scores["mean, none"], scores["first, none"]
    # What SimCSE's fork of SentEval finds; the development set has 3,000 sentences, some of them twice.
    assert mean.value == pytest.approx(86.72, abs=0.05)
    assert abs(mean.value - first.value) > 1
    assert mean.evaluator_protocol == first.evaluator_protocol

    how = [score.protocol["encoder"] | {"pooler": ""} for score in (mean, first)]

    assert how[0] == how[1]
    assert 2000 < sum(passes) <= 3000


SHORT = """
extends = "{study}"
schema = 1

[[stage]]
name = "qa"
data = {{ limit = 512 }}
batch_size = 16

[[stage]]
name = "nli"
data = {{ limit = 256 }}
"""


def test_a_trained_study_ends_in_a_table_with_means_spreads_and_p_values(
    tmp_path,
):
    short = tmp_path / "short.toml"
    short.write_text(SHORT.format(study=STUDIES / "sentence-t5.toml"), "utf-8")
    study = read_study(short, ['evaluate.0.tasks=["STSB-dev"]'])
    only = [{"pooler": "mean", "training": ("none", "qa+nli")}]
    result = run_study(study, tmp_path / "study", only=only)

    assert not result.failed
    assert write_reports(result.directory).is_file()

    data = read_data(result.directory)
    tables = {table.evaluator: table for table in summarise(data)}
    table = tables["senteval-sts"]

    assert [column.task for column in table.columns] == ["STSB-dev"]
    assert table.columns[0].protocol["pairs"] == 1500

    rows = {row.cell: row for row in table.rows}

    assert rows["first, none"].status == "waiting"

    runs = {cell.name: cell.runs for cell in data.cells}
    for name in ("mean, none", "mean, qa+nli"):
        values = [run.scores[0].value for run in runs[name]]
        assert len(set(values)) == len(values) == 2
        (cell,) = rows[name].cells
        assert cell.value == pytest.approx(statistics.mean(values))
        assert cell.std == pytest.approx(statistics.stdev(values))
    (trained,) = rows["mean, qa+nli"].cells

    assert trained.judged is not None
    assert trained.judged.basis == "items and seeds"
    assert [stage["name"] for stage in runs["mean, qa+nli"][0].record["stages"]] == [
        "qa",
        "nli",
    ]
