"""Models of the Hugging Face Hub: which files of a repository are fetched."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import ModelError, locate
from sentbed_common import hub_errors

from sentbed_backbones.model_file_checks import is_local

SMALL_FILES = ("*.json", "*.txt", "*.model")
"""Patterns of the files of configurations and tokenizers."""

CONFIGURATIONS = ("config.json", "adapter_config.json")
"""Files of which a repository that was fetched has one."""

MODEL_WEIGHTS = (
    "model.safetensors",
    "model-*-of-*.safetensors",
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
    "*.safetensors",
)
"""Patterns of weight files in the order in which transformers prefers them. A repository may have the same
weights in several formats, such as `consolidated.safetensors` beside shards; only the files of the first
pattern that matches are fetched."""

SECONDS_TO_ANSWER = 10.0
"""Number of seconds that the hub has to answer."""


@attrs.frozen
class ModelFiles:
    """The directory of a model's files, and their origin for the manifest."""

    directory: Path
    origin: Mapping[str, Any] = attrs.field(factory=dict)
    """The `commit` of a hub id; empty for a local model."""


def fetch(
    model: str,
    revision: str | None = None,
    code: bool = False,
    weights: bool = True,
    preferred: Sequence[str] = MODEL_WEIGHTS,
) -> ModelFiles:
    """Return the files of a local model or a hub id; the hub's files are downloaded if they are not in the cache.

    With `code`, Python files are fetched too; without `weights`, only configuration and tokenizer. If the hub
    cannot be asked, the files must have been fetched before.

    Raises:
        ModelError: if the repository, its revision or its weights cannot be obtained; the message says why.
    """
    if is_local(model):
        return ModelFiles(locate(model))

    from huggingface_hub import snapshot_download

    with hub_errors(ModelError, "model", model, revision):
        names = files_of_hub(model, revision)
        is_cached = names is None
        patterns = list(CONFIGURATIONS)
        if names is not None:
            patterns = list(SMALL_FILES)
            if code:
                patterns.append("*.py")
            if weights:
                patterns += chosen_weights(names, preferred)

        directory = snapshot_download(
            model,
            revision=revision,
            allow_patterns=patterns,
            ignore_patterns=["*/*"],
            local_files_only=is_cached,
        )

    return ModelFiles(Path(directory), {"commit": Path(directory).name})


def files_of_hub(model: str, revision: str | None) -> list[str] | None:
    """Return the names of a repository's files; None in offline mode, or if the hub does not answer.

    Raises the exceptions of huggingface-hub if the hub refuses the repository or revision.
    """
    from huggingface_hub import HfApi, is_offline_mode
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    if is_offline_mode():
        return None

    try:
        info = HfApi().model_info(model, revision=revision, timeout=SECONDS_TO_ANSWER)
    except HfHubHTTPError as error:
        # A status from 500 on means that the hub is down. A lower status is an answer ("no such repository").
        if error.response is not None and error.response.status_code < 500:
            raise

        return None
    except (OSError, httpx.TransportError):
        return None

    return [file.rfilename for file in info.siblings or ()]


def chosen_weights(names: Sequence[str], preferred: Sequence[str]) -> list[str]:
    """Return the weight files to read, among the `names` of the files of a repository.

    Raises:
        ModelError: if there are none.
    """
    for pattern in preferred:
        matching = fnmatch.filter(names, pattern)
        matching = [name for name in matching if "/" not in name]
        if matching:
            return sorted(matching)

    raise ModelError(
        "the repository has neither `*.safetensors` nor `pytorch_model.bin`; name a `revision` that has them, or "
        "another model"
    )


@functools.cache
def hub_remark(
    model: str,
    revision: str | None,
    weights: bool,
) -> str:
    """Return a remark for `sentbed check`: whether the hub was asked for a model.

    Raises:
        ModelError: if the hub refuses the repository, or its weights are missing.
    """
    from huggingface_hub import HfApi, constants

    with hub_errors(ModelError, "model", model, revision):
        names = files_of_hub(model, revision)
        if names is None:
            return f"`{model}`: {constants.ENDPOINT} was not asked; a run takes what was fetched before"

        HfApi().auth_check(model)
        if weights:
            chosen_weights(names, MODEL_WEIGHTS)

    return f"`{model}`: a run fetches it from {constants.ENDPOINT}"
