"""Loads or initialises a backbone with transformers; what differs between families is in `Family`."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from safetensors import SafetensorError
from sentbed import ModelError, locate
from sentbed.paths import sha256
from sentbed.protocols import Backbone, BuildContext, Module

from sentbed_backbones._torch.states import Read
from sentbed_backbones._torch.tokenizer import BulkTokenizer
from sentbed_backbones.files import is_local, problems_of

if TYPE_CHECKING:
    from sentbed_backbones.transformer import Transformer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "dropout_rate",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
)
"""What the architectures call the dropout of states and attention."""

OF_A_LAYER = re.compile(
    r"(^|\.)(layers?|block|h|embeddings)\.(?!position_ids$)"
    r"(?!.*\b(inv_freq|masked_bias|attn\.bias|attention\.bias)$)"
)
"""Names of weights that a model uses. Those of a head for pre-training are not among them, nor positions,
frequencies and causal masks, which old files hold and the code now computes."""

HUB_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
ADAPTER_DIRECTORY = "adapter"
BASE_FILE = "base.json"
"""Beside an adapter: hashes of the weights that it belongs to, which lie where the recipe says."""


class Family:
    """What differs between architectures; the defaults are those of most."""

    def __init__(self, parameters: Any, needs: frozenset[str]) -> None:
        self.parameters = parameters
        self.needs = needs

    def tokenizer(self, context: BuildContext) -> Any:
        """Train a tokenizer on the recipe's texts, for a model with random weights."""
        raise NotImplementedError

    def config(self, tokenizer: Any) -> Any:
        """Return the configuration of a model with random weights of the recipe's size."""
        raise NotImplementedError

    def problem(self, config: Any) -> str | None:
        """Return why a model of this configuration is not of the family, or None."""
        raise NotImplementedError

    def states(self, model: Any, layers: bool) -> Module:
        """Return `module(input_ids, attention_mask | None) -> TokenStates`, with all layers if asked for."""
        raise NotImplementedError

    def packed(self, model: Any, dtype: torch.dtype, layers: bool) -> Module | None:
        """Return a faster form for encoding with weights of its own, or None where there is none."""
        return None

    def encoding(self, states: Any) -> Module:
        """Return what encodes with the weights of `states`."""
        return states

    def loader(self) -> Any:
        """Return the auto class of transformers that loads what the pooler needs, and no more."""
        return transformers.AutoModel

    def left_out(self, key: str) -> bool:
        """Whether a weight that is in the files and not in the model is left out on purpose."""
        return False

    def advice(self, missing: Sequence[str]) -> str:
        """Return what to do about weights that are not in the files."""
        return "fetch the model again"

    def max_length(self, model: Any) -> int:
        """Return the longest input in tokens."""
        return int(model.config.max_position_embeddings)

    def width(self, config: Any) -> int:
        """Return the width of a token state."""
        return int(config.hidden_size)


class BuiltTransformer:
    """See `sentbed.protocols.BuiltBackbone`."""

    def __init__(
        self,
        parameters: Transformer,
        family: Family,
        model: Any,
        tokenizer: Any,
        origin: Mapping[str, Any],
    ) -> None:
        self.parameters, self.family = parameters, family
        self.model = model
        self.tokenizer = BulkTokenizer(tokenizer)
        self.origin = origin
        self.width = family.width(model.config)
        self.max_length = family.max_length(_base_of(model))
        self.shares_prefix = bool(getattr(parameters, "reuse_prefix", False)) and not getattr(
            _base_of(model), "_is_stateful", False
        )
        self.dispatched = parameters.device_map is not None
        """Whether the weights are already where they are to be."""
        self.mask_id: int | None = None
        if "mask-token" in family.needs:
            if tokenizer.mask_token is None:
                raise ModelError(
                    "the pooler reads a mask token, and the tokenizer has none; take another model"
                )
            self.mask_id = int(tokenizer.mask_token_id)
        self.module = self._read(family.states(model, self._all_layers))

    @property
    def _all_layers(self) -> bool:
        return "layers" in self.family.needs or self.parameters.layer_numbers != (-1,)

    def _read(self, states: Module) -> Module:
        numbers = self.parameters.layer_numbers
        count = int(self.model.config.num_hidden_layers) + 1
        if wrong := [number for number in numbers if not -count <= number < count]:
            raise ModelError(
                f"`layers` has {wrong[0]}, the model has the embedding output 0 and layers 1 to {count - 1}; "
                "choose among them"
            )
        if not self._all_layers and self.mask_id is None:
            return states
        return Read(states, numbers, "layers" in self.family.needs, self.mask_id)

    def inference(self, module: Module, dtype: torch.dtype, traceable: bool = False) -> Module:
        """Return a form of `module` for encoding.

        It is a copy in `dtype`, adapters merged. Weights that are held in 4 bits or below fp32 are held so
        for want of memory, and are used as they are.
        """
        model = self.model
        if self.parameters.quantization is None and self.parameters.dtype == "fp32":
            if _has_adapter(model):
                from sentbed_backbones._torch.adapters import merged_copy

                model = merged_copy(model, torch.float32)
            fast = None if traceable else self.family.packed(model, dtype, self._all_layers)
            if fast is not None:
                return self._read(fast).eval()
            if model is self.model:
                model = copy.deepcopy(model)
            model = _cast(model, dtype).requires_grad_(False)
        states = self.family.states(model, self._all_layers)
        return self._read(states if traceable else self.family.encoding(states)).eval()

    def save(self, directory: Path) -> None:
        """Write weights, configuration and tokenizer as transformers reads them.

        Of a pretrained model under an adapter or in 4 bits only the adapter is written: the rest has not
        changed, and lies where the recipe says.
        """
        adapted = _has_adapter(self.model)
        with quiet():
            try:
                self.tokenizer.original.save_pretrained(directory)
                if "sha256" in self.origin and (adapted or self.parameters.quantization is not None):
                    content = json.dumps({"sha256": self.origin["sha256"]}, indent=2)
                    (directory / BASE_FILE).write_text(content + "\n", "utf-8")
                else:
                    _plain_base(self.model).save_pretrained(directory)
                if adapted:
                    from sentbed_backbones._torch.adapters import save_adapter

                    save_adapter(self.model, directory / ADAPTER_DIRECTORY)
            except SafetensorError as error:
                # It wraps what the system said: a full disk is to be told from a fault of ours.
                raise OSError(str(error)) from error

    def merged(self) -> tuple[Backbone, BuiltTransformer]:
        """Return the backbone without adapter and quantisation, its vectors the same, and its component."""
        plain: Any = self.parameters.plain()
        model = self.model
        if _has_adapter(model) or self.parameters.quantization is not None:
            from sentbed_backbones._torch.adapters import merged_copy

            model = merged_copy(model, DTYPES[plain.dtype])
        origin = {key: value for key, value in self.origin.items() if key != "sha256"}
        return plain, BuiltTransformer(
            plain,
            type(self.family)(plain, self.family.needs),
            model,
            self.tokenizer.original,
            {**origin, "merged": True},
        )


def build(parameters: Transformer, family: Family, context: BuildContext) -> BuiltTransformer:
    """Load or initialise a backbone.

    Raises:
        ModelError: where weights are missing, incomplete or pickled, or need code that is not trusted.
    """
    saved = context.saved
    reference = saved is not None and (saved / BASE_FILE).is_file()
    if (saved is None or reference) and parameters.model is None:
        tokenizer = family.tokenizer(context)
        config = family.config(tokenizer)
        _set_dropout(config, parameters.dropout)
        model = _initialise(family.loader(), config, False, parameters)
        origin: dict[str, Any] = {"init": "random", "size": getattr(parameters, "size", None)}
    else:
        directory = saved if saved is not None and not reference else _directory(parameters)
        with_weights = directory is saved or parameters.init == "pretrained"
        model, tokenizer = _from_directory(parameters, family, directory, with_weights)
        origin = {"model": parameters.model, "init": parameters.init}
        if with_weights:
            origin["sha256"] = {file.name: sha256(file) for file in sorted(directory.glob("*.safetensors"))}
            if parameters.model is not None and not is_local(parameters.model) and directory is not saved:
                origin["commit"] = directory.name
        if reference:
            _require_same_base(saved / BASE_FILE, origin)  # type: ignore[operator]  # `reference` needs `saved`
    origin |= {
        key: value
        for key in ("dtype", "quantization")
        if (value := getattr(parameters, key)) not in (None, "fp32")
    }
    model = _adapt(model, parameters, saved, origin)
    return BuiltTransformer(parameters, family, model, tokenizer, origin)


def _adapt(model: Any, parameters: Transformer, saved: Path | None, origin: dict[str, Any]) -> Any:
    """Add a new or a trained adapter, and freeze what is not to be trained."""
    if parameters.lora is not None or parameters.adapter is not None:
        model = _with_adapter(model, parameters, saved, origin)
    if parameters.freeze is not None:
        from sentbed_backbones._torch.adapters import freeze

        freeze(model, parameters.freeze)
    return model


def _with_adapter(model: Any, parameters: Transformer, saved: Path | None, origin: dict[str, Any]) -> Any:
    from sentbed_backbones._torch.adapters import add_lora, load_adapter

    if saved is not None and (saved / ADAPTER_DIRECTORY).is_dir():
        return load_adapter(model, saved / ADAPTER_DIRECTORY)
    if parameters.lora is not None:
        return add_lora(model, parameters.lora)
    assert parameters.adapter is not None
    directory = (
        locate(parameters.adapter) if is_local(parameters.adapter) else _fetch(parameters.adapter, None)
    )
    origin["adapter"] = {file.name: sha256(file) for file in sorted(directory.glob("*.safetensors"))}
    return load_adapter(model, directory)


def _from_directory(
    parameters: Transformer, family: Family, directory: Path, with_weights: bool
) -> tuple[Any, Any]:
    for problem in problems_of(directory, with_weights, parameters.trust_remote_code):
        raise ModelError(problem)
    trust = parameters.trust_remote_code
    loader = family.loader()
    with quiet():
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(directory, trust_remote_code=trust)
            config = transformers.AutoConfig.from_pretrained(directory, trust_remote_code=trust)
            if misfit := family.problem(config):
                raise ModelError(f"the model in `{directory}` is a `{config.model_type}`; {misfit}")
            _set_dropout(config, parameters.dropout)
            if with_weights:
                model = _load(directory, loader, config, parameters, family)
            else:
                model = _initialise(loader, config, trust, parameters)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(
                f"the model in `{directory}` cannot be loaded: {error}; check that its files are complete"
            ) from error
    if len(tokenizer) > config.vocab_size:
        raise ModelError(
            f"the tokenizer in `{directory}` has {len(tokenizer)} tokens, the model has embeddings for "
            f"{config.vocab_size}; fetch the model again"
        )
    return model, tokenizer


def _load(
    directory: Path,
    loader: Any,
    config: Any,
    parameters: Transformer,
    family: Family,
) -> Any:
    options: dict[str, Any] = {}
    if parameters.device_map is not None:
        options["device_map"] = parameters.device_map
    if parameters.quantization is not None:
        from sentbed_backbones._torch.adapters import nf4_config

        options.setdefault("device_map", {"": "cpu"})
        options["quantization_config"] = nf4_config(DTYPES[parameters.dtype])
    model, info = loader.from_pretrained(
        directory,
        config=config,
        use_safetensors=True,
        dtype=DTYPES[parameters.dtype],
        trust_remote_code=parameters.trust_remote_code,
        output_loading_info=True,
        **options,
    )
    if parameters.quantization is not None:
        from sentbed_backbones._torch.adapters import prepare_4bit

        prepare_4bit(model)
    model = _without_pooler(model)
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    mismatched = sorted(str(key) for key in info["mismatched_keys"])
    unused = sorted(
        key for key in info["unexpected_keys"] if OF_A_LAYER.search(key) and not family.left_out(key)
    )
    if missing or mismatched or unused:
        # transformers would fill the missing with random numbers, drop the unused, and go on.
        found = f"{len(missing)} weights missing, {len(mismatched)} of another shape, {len(unused)} unused"
        first = (missing + mismatched + unused)[0]
        raise ModelError(
            f"the weights in `{directory}` do not fit its `config.json`: {found}, the first is `{first}`; "
            f"{family.advice(missing)}"
        )
    return model


def _initialise(loader: Any, config: Any, trust_remote_code: bool, parameters: Transformer) -> Any:
    model = loader.from_config(config, trust_remote_code=trust_remote_code)
    return _cast(_without_pooler(model), DTYPES[parameters.dtype])


def _cast(model: Any, dtype: torch.dtype) -> Any:
    """Cast the weights of a model; buffers stay, LLaMA's rotary frequencies need their precision."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def _require_same_base(file: Path, origin: Mapping[str, Any]) -> None:
    found = json.loads(file.read_text("utf-8"))["sha256"]
    if found != origin.get("sha256"):
        raise ModelError(
            f"the adapter beside `{file}` was trained on other weights than those of `{origin['model']}`; "
            "put the model back, or name the right one as `model`"
        )


def _directory(parameters: Transformer) -> Path:
    """Return the model's directory, fetched from the hub where it is a hub id."""
    assert parameters.model is not None
    if is_local(parameters.model):
        return locate(parameters.model)
    return _fetch(parameters.model, parameters.revision, ["*.py"] if parameters.trust_remote_code else [])


def _fetch(model: str, revision: str | None, more: list[str] | None = None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        # Files in folders are other formats and sizes of the same weights.
        return Path(
            snapshot_download(
                model, revision=revision, allow_patterns=[*HUB_FILES, *(more or [])], ignore_patterns=["*/*"]
            )
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        at = f" at revision `{revision}`" if revision else ""
        raise ModelError(
            f"the hub gives no model `{model}`{at}: {str(error).splitlines()[0]}; "
            "check the id and the network, or name a local directory that starts with `./`"
        ) from error


def _set_dropout(config: Any, dropout: float | None) -> None:
    if dropout is None:
        return
    names = [name for name in DROPOUTS if hasattr(config, name)]
    if not names:
        raise ModelError(f"a `{config.model_type}` has no dropout that can be set; leave out `dropout`")
    for name in names:
        setattr(config, name, dropout)


def _without_pooler(model: Any) -> Any:
    """Drop [CLS] + dense + tanh: no gradient reaches it, yet weight decay would."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def _has_adapter(model: Any) -> bool:
    return hasattr(model, "peft_config")


def _base_of(model: Any) -> Any:
    return model.get_base_model() if _has_adapter(model) else model


def _plain_base(model: Any) -> Any:
    """Return the model that an adapter was put on, without it."""
    return copy.deepcopy(model).unload() if _has_adapter(model) else model


@contextmanager
def quiet() -> Iterator[None]:
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
