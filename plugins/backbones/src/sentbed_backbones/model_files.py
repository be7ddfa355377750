"""The files of a recipe's model, with weights as safetensors."""

from __future__ import annotations

from pathlib import Path

from sentbed import ModelError, SentbedError
from sentbed_common import in_safetensors

from sentbed_backbones.hub_models import ModelFiles, fetch
from sentbed_backbones.model_file_checks import problems_of
from sentbed_backbones.transformer_base import Transformer


def with_safetensors(
    files: ModelFiles,
    model: str,
    trust_remote_code: bool = False,
    may_convert: bool = True,
) -> ModelFiles:
    """Return the files of `model` with weights as safetensors; pickled weights are converted.

    Raises:
        ModelError: if the files cannot be read, or if weights are pickled, `may_convert` is false, and they
            were not converted before.
    """
    for problem in problems_of(files.directory, True, trust_remote_code):
        raise ModelError(problem)

    directory, pickled = in_safetensors(files.directory, may_convert, f"`{model}`")
    if not pickled:
        return ModelFiles(directory, files.origin)

    return ModelFiles(directory, {**files.origin, "pickled_sha256": dict(pickled)})


def model_files(parameters: Transformer, may_convert: bool = True) -> ModelFiles:
    """Return the files of the recipe's `model` with weights as safetensors; a hub id is downloaded.

    Raises:
        ModelError: if the files cannot be obtained or read, or if weights are pickled, `may_convert` is false,
            and they were not converted before.
    """
    assert parameters.model is not None
    model, trust = parameters.model, parameters.trust_remote_code
    with_weights = parameters.init == "pretrained"
    files = fetch(
        model,
        parameters.revision,
        code=trust,
        weights=with_weights,
        pickles=may_convert,
    )
    if not with_weights:
        return files

    return with_safetensors(files, model, trust, may_convert)


def base_files(parameters: Transformer, saved: Path) -> ModelFiles:
    """Return the files of the base model of a saved adapter. Raises `ModelError` if they cannot be obtained."""
    try:
        # The saved encoder names the model, and it may be a stranger's: its pickled weights are not converted.
        return model_files(parameters, may_convert=False)
    except SentbedError as error:
        raise ModelError(
            f"`{saved}` holds no weights but an adapter's, and its model cannot be had: {error}; put the "
            "model back, or change `model` in the encoder's `encoder.toml` and delete its `checksums.json`"
        ) from error
