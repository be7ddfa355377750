"""The training data that a model declares, in `training_datasets` of the `model_meta.json` of its results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import attrs

from sentbed_audit.mteb_results import model_of_path
from sentbed_audit.score_rows import name_of

FILE = "model_meta.json"
FIELD = "training_datasets"


@attrs.frozen
class DeclaredTraining:
    """The tasks of MTEB that a model declares as training data."""

    model: str
    revision: str
    tasks: Mapping[str, str]
    """Declared task -> names of its splits, as one text; the text is empty if the file names no splits."""
    file: str


def declared_training(content: Any, path: PurePosixPath) -> DeclaredTraining | None:
    """Return the training data that a file declares; None if it is no `model_meta.json`, or has no such entry.

    MTEB writes a list of tasks; its earlier versions wrote a table with the splits of each task. An empty list
    declares that the model was trained on none of MTEB's tasks.
    """
    if path.name != FILE or not isinstance(content, Mapping):
        return None

    names = content.get(FIELD)
    tasks = {}
    if isinstance(names, Mapping):
        for name, splits in names.items():
            names_of_splits = ""
            if isinstance(splits, list):
                names_of_splits = ", ".join(map(name_of, splits))
            tasks[name_of(name)] = names_of_splits
    elif isinstance(names, list):
        tasks = {name_of(name): "" for name in names}
    else:
        return None
    model, revision = model_of_path(path)
    return DeclaredTraining(name_of(model), name_of(revision), tasks, str(path))
