from __future__ import annotations

import json
from itertools import product

import pytest
import tomli_w
from sentbed._run.report_json import record_json
from sentbed.protocols import ReportData, Score
from sentbed_report.score_items import keep_items
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.study_file import write_study_file
from toy_study import hits


@pytest.fixture
def write_run(tmp_path):
    """Write a run directory with these scores."""

    def write(name, *scores, directory=None, seed=1, status="finished", pooler=None):
        path = tmp_path / (directory or name)
        path.mkdir(parents=True)
        recipe = {
            "run": {"name": name, "seed": seed},
            "encoder": {"pooler": pooler or {}},
        }
        (path / "resolved.toml").write_text(tomli_w.dumps(recipe))
        (path / "manifest.json").write_text(json.dumps({"status": status}))
        error = None if status == "finished" else "out of memory"
        data = ReportData(
            name, status, error, "2026-03-04T14:05:33+00:00", 2.5, "", {}, scores
        )
        (path / "report.json").write_text(record_json(data))
        keep_items(path, scores)
        return path

    return write


@pytest.fixture
def run_of(write_run):
    """Write a run directory with a score of which a share of the items are right."""

    def write(directory, share=0.5, seed=1, name=None, status="finished", **pooler):
        items = hits(share, seed)
        protocol = {"encoder": {}, "evaluator": {"id": "p"}}
        score = Score(
            "MR",
            "accuracy",
            100 * float(items.x.mean()),
            protocol,
            "en",
            "transfer",
            items,
        )
        return write_run(
            name or directory,
            score,
            directory=directory,
            seed=seed,
            status=status,
            pooler=pooler,
        )

    return write


@pytest.fixture
def write_study(tmp_path, run_of):
    """Write a study of all combinations of labels, of whose items a share each are right under every seed."""

    def write(
        name,
        axes,
        shares,
        seeds=(1,),
        baseline=None,
    ):
        place = tmp_path / name
        place.mkdir()
        names = [axis.name for axis in axes]
        cells = []
        for labels, share in zip(
            product(*(axis.labels for axis in axes)), shares, strict=True
        ):
            cell = ", ".join(labels)
            runs = []
            for seed in seeds:
                directory = f"{'-'.join(labels)}-{seed}"
                run_of(
                    f"{name}/runs/{directory}",
                    share,
                    seed,
                    f"{name}.{directory}",
                    use=labels[0],
                )
                runs.append(CellRun(cell, seed, evaluations=(), key=directory))
            of_axes = dict(zip(names, labels, strict=True))
            cells.append(CellInfo(cell, of_axes, tuple(runs)))
        study = StudyData(
            name,
            tuple(axes),
            tuple(cells),
            baseline,
            seeds,
        )
        write_study_file(place, study)
        (place / "study.toml").write_text("")
        return place

    return write
