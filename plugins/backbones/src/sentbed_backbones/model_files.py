"""The files of a recipe's model, with weights as safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from sentbed import ModelError, SentbedError, locate
from sentbed_common import in_safetensors

from sentbed_backbones.hub_models import fetch
from sentbed_backbones.model_file_checks import is_local, problems_of
from sentbed_backbones.transformer_base import Transformer


@attrs.frozen
class ModelFiles:
    """The directory of a model in safetensors, and what the manifest says of where it is from."""

    directory: Path
    origin: Mapping[str, Any] = attrs.field(factory=dict)

    def in_safetensors(
        self, model: str, trust_remote_code: bool = False, may_convert: bool = True
    ) -> ModelFiles:
        """Return the files of `model` once its weights are safetensors. Raises `ModelError` as `model_files`."""
        for problem in problems_of(self.directory, True, trust_remote_code):
            raise ModelError(problem)

        directory, pickled = in_safetensors(self.directory, may_convert, f"`{model}`")
        if not pickled:
            return ModelFiles(directory, self.origin)

        return ModelFiles(directory, {**self.origin, "pickled_sha256": dict(pickled)})


def located_files(
    model: str,
    revision: str | None,
    code: bool = False,
    weights: bool = True,
    pickles: bool = True,
) -> ModelFiles:
    """Return the files of a model as they are, those of a hub id as `fetch` has them."""
    if is_local(model):
        return ModelFiles(locate(model))

    fetched = fetch(model, revision, code, weights, pickles=pickles)
    origin = {"commit": fetched.directory.name}
    if fetched.conversion is not None:
        origin["conversion"] = fetched.conversion
    return ModelFiles(fetched.directory, origin)


def model_files(parameters: Transformer, may_convert: bool = True) -> ModelFiles:
    """Return the files of the recipe's `model`, a hub id downloaded first, with weights as safetensors.

    Raises:
        ModelError: if they cannot be had; without `may_convert`, also if they are pickled and were not
            converted before.
    """
    assert parameters.model is not None
    model, trust = parameters.model, parameters.trust_remote_code
    with_weights = parameters.init == "pretrained"
    files = located_files(
        model,
        parameters.revision,
        code=trust,
        weights=with_weights,
        pickles=may_convert,
    )
    if not with_weights:
        return files

    return files.in_safetensors(model, trust, may_convert)


def base_files(parameters: Transformer, saved: Path) -> ModelFiles:
    """Return the files of the model that a saved adapter belongs to."""
    try:
        # The saved encoder, which may be a stranger's, says which model that is.
        return model_files(parameters, may_convert=False)
    except SentbedError as error:
        raise ModelError(
            f"`{saved}` holds no weights but an adapter's, and its model cannot be had: {error}; put the "
            "model back, or change `model` in the encoder's `encoder.toml` and delete its `checksums.json`"
        ) from error
