"""Scores of MTEB's tasks, written as its own result files: MTEB reads them, and our audit does."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from itertools import product

import attrs
import numpy as np
import pytest
import tomli_w
from click.testing import CliRunner
from sentbed.errors import DataError, RunError
from sentbed.protocols import ReportData, Score, TextEncoder
from sentbed.tools import record_json
from sentbed_audit.export_command import export_mteb
from sentbed_audit.mteb_export import export_results
from sentbed_audit.read_results import read_results
from sentbed_evaluators.mteb import MTEB, as_mteb_model
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study.study_record import (
    CellRecord,
    RunRecord,
    StudyRecord,
    write_study_record,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mteb") is None, reason="needs the extra `mteb`"
)

PAIRS = [
    ("a dog runs", "a dog is running", 4.5),
    ("a man cooks", "the train is late", 0.5),
    ("two birds fly", "birds in the air", 3.0),
    ("it rains", "the sun shines", 1.0),
    ("she reads a book", "she is reading", 4.0),
]


class LetterCounts(TextEncoder):
    """A vector has the counts of the letters of a text."""

    def encode(self, texts):
        vectors = np.zeros((len(texts), 128), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for letter in text.encode("ascii"):
                vector[letter] += 1
        return vectors


@pytest.fixture
def tasks(monkeypatch):
    """Tasks of one part, of two subsets and two splits, and one that is the mean of others."""
    import datasets
    from mteb import TaskMetadata
    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.aggregate_task_metadata import AggregateTaskMetadata
    from mteb.abstasks.aggregated_task import AbsTaskAggregate

    def data(rows):
        first, second, scores = zip(*rows, strict=True)
        columns = {"sentence1": first, "sentence2": second, "score": scores}
        return datasets.Dataset.from_dict(columns)

    def about(name, **fields):
        return TaskMetadata(
            name=name,
            description="",
            type="STS",
            main_score="cosine_spearman",
            dataset={"path": f"local/{name}", "revision": f"of {name}"},
            **fields,
        )

    class Plain(AbsTaskSTS):
        metadata = about("Plain", eval_langs=["eng-Latn"])

        def load_data(self, **_):
            self.dataset = datasets.DatasetDict(test=data(PAIRS))
            self.data_loaded = True

    class Parts(AbsTaskSTS):
        metadata = about(
            "Parts",
            eval_langs={"en": ["eng-Latn"], "de": ["deu-Latn"]},
            eval_splits=["test", "dev"],
        )

        def load_data(self, **_):
            self.dataset = {
                "en": datasets.DatasetDict(test=data(PAIRS[:4]), dev=data(PAIRS[1:])),
                "de": datasets.DatasetDict(test=data(PAIRS[:3]), dev=data(PAIRS[2:])),
            }
            self.data_loaded = True

    class Shifted(Plain):
        metadata = about("Shifted", eval_langs=["eng-Latn"])

        def load_data(self, **_):
            self.dataset = datasets.DatasetDict(test=data(PAIRS[1:]))
            self.data_loaded = True

    class Mean(AbsTaskAggregate):
        metadata = AggregateTaskMetadata(
            name="Mean",
            description="",
            type="STS",
            main_score="cosine_spearman",
            eval_langs=["eng-Latn"],
            eval_splits=["test"],
            tasks=[Plain(), Shifted()],
        )

    module = types.ModuleType("tasks_to_export")
    for task in (Plain, Parts, Mean):
        setattr(module, task.__name__, task)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.fixture
def scores(tasks):
    """The scores of our evaluator, as a run records them."""
    evaluator = MTEB(
        tasks=tuple(f"{tasks.__name__}:{name}" for name in ("Plain", "Parts", "Mean"))
    )
    recorded = []
    for score in evaluator.prepare().evaluate(LetterCounts()).scores:
        protocol = {"encoder": {"max_length": 64}, "evaluator": score.protocol}
        recorded.append(
            attrs.evolve(score, encoder="en", evaluator="mteb", protocol=protocol)
        )
    return tuple(recorded)


def write_run(directory, scores, seed=1, evaluate="mteb"):
    """Write the records of a finished run."""
    directory.mkdir(parents=True)
    recipe = {
        "run": {"name": "letters", "seed": seed},
        "encoder": {"pooler": {"use": "mean"}},
        "evaluate": [{"use": evaluate}],
    }
    (directory / "manifest.json").write_text('{"status": "finished"}')
    (directory / "resolved.toml").write_text(tomli_w.dumps(recipe))
    data = ReportData(
        "letters",
        "finished",
        None,
        "2026-03-04T14:05:33+00:00",
        2.5,
        "",
        {},
        tuple(scores),
    )
    (directory / "report.json").write_text(record_json(data))


def numbers(result):
    """Return the main score of each subset of each split of a result of MTEB."""
    return {
        split: {entry["hf_subset"]: entry["main_score"] for entry in entries}
        for split, entries in result.scores.items()
    }


def test_mteb_reads_the_numbers_that_it_computes_itself(tasks, scores, tmp_path):
    import mteb

    # Before training, the encoder was another one.
    before = attrs.evolve(scores[0], encoder="en@start", value=1.0)
    write_run(tmp_path / "run", [before, *scores])
    command = CliRunner().invoke(
        export_mteb,
        [str(tmp_path / "run"), str(tmp_path / "out"), "--model", "we/letters"],
    )
    assert command.exit_code == 0, command.output
    assert "3 results of 1 model revisions" in command.output
    cache = mteb.ResultCache(tmp_path / "out")
    (model,) = cache.load_results(include_remote=False).model_results
    assert model.model_name == "we/letters"
    assert len(model.model_revision) == 40
    exported = {result.task_name: result for result in model.task_results}
    assert exported.keys() == {"Plain", "Parts", "Mean"}

    mteb_model = as_mteb_model(LetterCounts(), "we/letters")
    for task in (tasks.Plain(), tasks.Parts(), tasks.Mean()):
        (expected,) = mteb.evaluate(
            mteb_model, task, cache=None, co2_tracker=False
        ).task_results
        result = exported[expected.task_name]
        assert result.get_score() == pytest.approx(expected.get_score(), abs=1e-12)
        for split, subsets in numbers(expected).items():
            assert numbers(result)[split] == pytest.approx(subsets, abs=1e-12)
        assert (result.dataset_revision, result.mteb_version) == (
            expected.dataset_revision,
            expected.mteb_version,
        )
        assert result.languages == expected.languages
    meta = json.loads(next((tmp_path / "out").rglob("model_meta.json")).read_text())
    assert meta["max_tokens"] == 64


def test_our_audit_reads_what_is_exported(scores, tmp_path):
    write_run(tmp_path / "run", scores)
    export_results(tmp_path / "run", tmp_path / "out", "we/letters")
    frame = read_results([tmp_path / "out"]).scores
    values = {
        (row.task, row.split, row.subset): row.score for row in frame.itertuples()
    }
    assert len(values) == 6
    by_name = {(score.task, score.metric): score.value / 100 for score in scores}
    assert values["Parts", "dev", "de"] == pytest.approx(
        by_name["Parts", "cosine_spearman-dev-de"]
    )
    assert values["Plain", "test", "default"] == pytest.approx(
        by_name["Plain", "cosine_spearman"]
    )


def test_cells_are_models_and_seeds_revisions(scores, tmp_path):
    study = tmp_path / "study"
    cells = []
    for name in ("mean, 0.05", "mean; 0.05"):
        runs = []
        for seed, prompt in product((1, 2), ("in a word", "in-a-word")):
            directory = f"{len(cells)}-{seed}-{prompt}"
            write_run(study / directory, scores, seed)
            runs.append(RunRecord(seed, "key", directory, prompt=prompt))
        cells.append(CellRecord(name, {"pooler": name}, (), tuple(runs)))
    record = StudyRecord(
        name="study",
        axes=(AxisInfo("pooler", tuple(cell.name for cell in cells)),),
        baseline=None,
        excluded=(),
        expected={},
        prompts=("in a word", "in-a-word"),
        cells=tuple(cells),
    )
    write_study_record(study, record)
    (study / "study.toml").write_text("")
    files = export_results(study, tmp_path / "out", "we/letters")
    assert len(set(files)) == 2 * 2 * 2 * 3
    folders = {file.parent.relative_to(tmp_path / "out") for file in files}
    assert {folder.parts[1] for folder in folders} == {
        "we__letters-mean-0.05-in-a-word",
        "we__letters-mean-0.05-in-a-word-2",
        "we__letters-mean-0.05-2-in-a-word",
        "we__letters-mean-0.05-2-in-a-word-2",
    }
    assert len({folder.parts[2] for folder in folders}) == 2


def test_the_revision_is_that_of_the_encoder(scores, tmp_path):
    revisions = []
    for number, (seed, evaluator) in enumerate([(1, "mteb"), (1, "sts"), (2, "mteb")]):
        write_run(tmp_path / f"run{number}", scores[:1], seed, evaluator)
        (file,) = export_results(
            tmp_path / f"run{number}", tmp_path / "out", "we/letters"
        )
        revisions.append(file.parent.name)
    assert revisions[0] == revisions[1] != revisions[2]


@pytest.mark.parametrize(
    ("evaluator", "model", "error", "message"),
    [
        ("sts", "we/letters", RunError, "has no scores of the evaluator `mteb`"),
        ("mteb", "letters", DataError, "expected `OWNER/NAME`"),
        ("mteb", "../../letters", DataError, "expected `OWNER/NAME`"),
    ],
)
def test_other_scores_and_names_are_refused(tmp_path, evaluator, model, error, message):
    protocol = {"encoder": {}, "evaluator": {"dataset": "local/Plain"}}
    write_run(
        tmp_path / "run",
        [Score("Plain", "cosine_spearman", 50.0, protocol, "en", evaluator)],
    )
    with pytest.raises(error, match=message):
        export_results(tmp_path / "run", tmp_path / "out", model)
    assert not (tmp_path / "out").exists()
