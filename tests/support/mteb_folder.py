"""A folder of results as MTEB writes them, of three models on all tasks of a benchmark."""

from __future__ import annotations

import json

import numpy as np
from sentbed_audit.benchmarks import benchmark_tasks


def write_mteb_folder(place):
    """Write the results of three models into `place`."""
    generator = np.random.default_rng(0)
    for model in ("one", "two", "three"):
        directory = place / f"org__{model}" / "revision"
        directory.mkdir(parents=True)
        for name, task in benchmark_tasks("MTEB(eng, v2)").items():
            entries = [
                {"hf_subset": subset, "main_score": generator.random()}
                for subset in task.subsets
            ]
            content = {
                "task_name": name,
                "mteb_version": "2.26.0",
                "dataset_revision": "data",
                "scores": dict.fromkeys(task.splits, entries),
            }
            (directory / f"{name}.json").write_text(json.dumps(content))
