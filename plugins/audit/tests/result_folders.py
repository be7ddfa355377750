"""Folders of results for tests."""

from __future__ import annotations

import json

import numpy as np

TASKS = tuple(f"Task{number:02}" for number in range(12))


def write_mteb_file(
    root,
    model,
    task,
    score,
    revision="rev1",
    **fields,
):
    """Write the result of one task; `fields` replace those of a plain one."""
    entry = {"hf_subset": "default", "languages": ["eng-Latn"], "main_score": score}
    content = {
        "task_name": task,
        "mteb_version": "2.6.7",
        "dataset_revision": "data1",
        "scores": {"test": [entry]},
        **fields,
    }
    file = root / model.replace("/", "__") / revision / f"{task}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def write_folder(root, models=4, step=0.05):
    """Write results of models that differ by `step` on average, and return their scores."""
    generator = np.random.default_rng(1)
    difficulty = generator.uniform(0.4, 0.6, len(TASKS))
    scores = np.empty((models, len(TASKS)))
    for model in range(models):
        scores[model] = (
            difficulty + step * model + generator.normal(0, 0.004, len(TASKS))
        )
        for task, score in zip(TASKS, scores[model], strict=True):
            write_mteb_file(root, f"org/model{model}", task, float(score))
    return scores
