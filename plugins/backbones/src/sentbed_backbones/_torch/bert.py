"""Builds a BERT-family backbone with transformers."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from safetensors import SafetensorError
from sentbed import ModelError, locate
from sentbed.paths import sha256
from sentbed.protocols import BuildContext, Module, TokenStates

from sentbed_backbones._torch.packed_bert import PackedBert
from sentbed_backbones._torch.tokenizer import BulkTokenizer, train_wordpiece
from sentbed_backbones.files import is_local, problems_of

if TYPE_CHECKING:
    from sentbed_backbones.bert import Bert

SIZES: Mapping[str, tuple[int, int]] = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
"""Layers and width; heads are of width 64 and the inner layer is four times as wide (Turc et al., 2019)."""

DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
"""What the architectures call the dropout of states and attention."""

OF_THE_ENCODER = re.compile(r"(^|\.)(layer|embeddings)\.(?!position_ids$)")
"""Names of weights that an encoder uses; those of a head for pre-training are not among them."""

HUB_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")


class BertStates(torch.nn.Module):
    """A transformers encoder as `module(input_ids, attention_mask | None) -> TokenStates`."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> TokenStates:
        """Return the last layer's states."""
        output = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return TokenStates(output.last_hidden_state, attention_mask)


class BuiltBert:
    """See `sentbed.protocols.BuiltBackbone`."""

    def __init__(self, model: Any, tokenizer: Any, origin: Mapping[str, Any]) -> None:
        self.module = BertStates(model)
        self.tokenizer = BulkTokenizer(tokenizer)
        self.origin = origin
        self.width = int(model.config.hidden_size)
        self.max_length = int(model.config.max_position_embeddings) - _first_position(model)

    def inference(self, module: Module, dtype: torch.dtype) -> Module:
        """Return the packed form where the architecture is the plain one, else a copy in `dtype`."""
        if PackedBert.fits(module.model):
            return PackedBert(module.model, dtype)
        replica = copy.deepcopy(module).to(dtype).eval()
        return replica.requires_grad_(False)

    def save(self, directory: Path) -> None:
        """Write weights, configuration and tokenizer as transformers reads them."""
        with _quiet():
            try:
                self.module.model.save_pretrained(directory)
                self.tokenizer.original.save_pretrained(directory)
            except SafetensorError as error:
                # It wraps what the system said: a full disk is to be told from a fault of ours.
                raise OSError(str(error)) from error


def build_bert(parameters: Bert, context: BuildContext) -> BuiltBert:
    """See `Bert.build`."""
    random = parameters.init == "random"
    if context.saved is None and parameters.model is None:
        tokenizer = train_wordpiece(context.texts(), parameters.vocab_size, parameters.lowercase)
        layers, width = SIZES[parameters.size]
        config = transformers.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            intermediate_size=4 * width,
            pad_token_id=tokenizer.pad_token_id,
        )
        _set_dropout(config, parameters.dropout)
        return BuiltBert(_initialise(config, False), tokenizer, {"init": "random", "size": parameters.size})
    directory = context.saved or _directory(parameters)
    with_weights = context.saved is not None or not random
    for problem in problems_of(directory, with_weights, parameters.trust_remote_code):
        raise ModelError(problem)
    trust = parameters.trust_remote_code
    with _quiet():
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(directory, trust_remote_code=trust)
            config = transformers.AutoConfig.from_pretrained(directory, trust_remote_code=trust)
            _require_encoder(config, directory)
            _set_dropout(config, parameters.dropout)
            model = _load(directory, config, trust) if with_weights else _initialise(config, trust)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(
                f"the model in `{directory}` cannot be loaded: {error}; check that its files are complete"
            ) from error
    if len(tokenizer) > config.vocab_size:
        raise ModelError(
            f"the tokenizer in `{directory}` has {len(tokenizer)} tokens, the model has embeddings for "
            f"{config.vocab_size}; fetch the model again"
        )
    origin: dict[str, Any] = {"model": parameters.model, "init": parameters.init}
    if with_weights:
        origin["sha256"] = {file.name: sha256(file) for file in sorted(directory.glob("*.safetensors"))}
        if parameters.model is not None and not is_local(parameters.model) and context.saved is None:
            origin["commit"] = directory.name
    return BuiltBert(model, tokenizer, origin)


def _directory(parameters: Bert) -> Path:
    """Return the model's directory, fetched from the hub where it is a hub id."""
    assert parameters.model is not None
    if is_local(parameters.model):
        return locate(parameters.model)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        # Files in folders are other formats and sizes of the same weights.
        return Path(
            snapshot_download(
                parameters.model,
                revision=parameters.revision,
                allow_patterns=[*HUB_FILES, *(["*.py"] if parameters.trust_remote_code else [])],
                ignore_patterns=["*/*"],
            )
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        at = f" at revision `{parameters.revision}`" if parameters.revision else ""
        raise ModelError(
            f"the hub gives no model `{parameters.model}`{at}: {str(error).splitlines()[0]}; "
            "check the id and the network, or name a local directory that starts with `./`"
        ) from error


def _load(directory: Path, config: Any, trust_remote_code: bool) -> Any:
    model, info = transformers.AutoModel.from_pretrained(
        directory,
        config=config,
        use_safetensors=True,
        dtype=torch.float32,
        trust_remote_code=trust_remote_code,
        output_loading_info=True,
    )
    model = _without_pooler(model)
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    mismatched = sorted(str(key) for key in info["mismatched_keys"])
    unused = sorted(key for key in info["unexpected_keys"] if OF_THE_ENCODER.search(key))
    if missing or mismatched or unused:
        # transformers would fill the missing with random numbers, drop the unused, and go on.
        found = f"{len(missing)} weights missing, {len(mismatched)} of another shape, {len(unused)} unused"
        first = (missing + mismatched + unused)[0]
        raise ModelError(
            f"the weights in `{directory}` do not fit its `config.json`: {found}, the first is `{first}`; "
            "fetch the model again"
        )
    return model


def _initialise(config: Any, trust_remote_code: bool) -> Any:
    return _without_pooler(transformers.AutoModel.from_config(config, trust_remote_code=trust_remote_code))


def _require_encoder(config: Any, directory: Path) -> None:
    masked = type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING or hasattr(config, "auto_map")
    if not masked or config.is_encoder_decoder or not hasattr(config, "max_position_embeddings"):
        raise ModelError(
            f"the model in `{directory}` is a `{config.model_type}`, the backbone `bert` takes encoders of "
            "BERT's family; choose another model"
        )


def _set_dropout(config: Any, dropout: float | None) -> None:
    if dropout is None:
        return
    names = [name for name in DROPOUTS if hasattr(config, name)]
    if not names:
        raise ModelError(f"a `{config.model_type}` has no dropout that can be set; leave out `dropout`")
    for name in names:
        setattr(config, name, dropout)


def _first_position(model: Any) -> int:
    """Return the position of the first token: RoBERTa and its kin count from behind the padding id."""
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def _without_pooler(model: Any) -> Any:
    """Drop [CLS] + dense + tanh: no gradient reaches it, yet weight decay would."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the reports and bars of transformers: what matters of them is an error here."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
