"""Small random models of the real architectures, written in the layout of a repository."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import torch
import transformers
from safetensors.torch import save_file

from hub_replicas.layouts import Layout, read_layouts
from hub_replicas.tokenizer_files import KINDS, TokenizerFiles

WIDTH = 32
POSITIONS = 512
POSITIONS_OF_DECODERS = 2048
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

OF_BERT = {
    "hidden_size": WIDTH,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": POSITIONS,
}
OF_LLAMA = {**OF_BERT, "max_position_embeddings": POSITIONS_OF_DECODERS}
OF_ROBERTA = {**OF_BERT, "max_position_embeddings": POSITIONS + 2}
SIZES: dict[str, dict[str, Any]] = {
    "bert": OF_BERT,
    "roberta": OF_ROBERTA,
    "xlm-roberta": OF_ROBERTA,
    "t5": {"d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    "opt": {
        "hidden_size": WIDTH,
        "ffn_dim": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": POSITIONS_OF_DECODERS,
    },
    "gptj": {
        "n_embd": WIDTH,
        "n_layer": 2,
        "n_head": 4,
        "rotary_dim": 4,
        "n_positions": POSITIONS_OF_DECODERS,
    },
    "llama": OF_LLAMA,
    "mistral": OF_LLAMA,
    "qwen2": OF_LLAMA,
    "gemma2": OF_LLAMA,
}
"""Architecture -> the settings of a model of 2 layers and width 32."""


@attrs.frozen
class Replica:
    """A repository's files, and what a reader of them must find."""

    layout: Layout
    main: Path
    weights: Mapping[str, torch.Tensor]
    """The weights of the whole model, by transformers' names of today."""
    encode: Any
    """Text -> ids."""


def build_replica(layout, tokenizer, directory):
    """Write a small random model in a layout below `directory`."""
    main = directory / "main"
    main.mkdir(parents=True)
    model = _random_model(layout, tokenizer)
    # Tied weights share their memory in a pickle, as in the model.
    weights = model.state_dict()
    for key, value in _more(layout, model).items():
        weights[key] = value
    named = _in_layout(layout, weights)
    _write_config(layout, model, main)
    tokenizer.write(layout.tokenizer_files, main)
    if layout.rows < 0:
        _add_tokens(main, tokenizer.size, -layout.rows)
    _write_other_files(layout, main)
    if "safetensors" in layout.weights:
        _write_safetensors(layout, named, main)
    if "pickle" in layout.weights:
        _write_pickles(layout, named, main)
    return Replica(layout, main, model.state_dict(), tokenizer.encode)


def _random_model(layout, tokenizer):
    model_class = getattr(transformers, layout.architecture)
    kind = model_class.config_class.model_type
    settings = {
        **SIZES[kind],
        **tokenizer.specials,
        "vocab_size": tokenizer.size + max(layout.rows, 0),
    }
    if kind == "t5":
        settings["decoder_start_token_id"] = 0
    settings |= layout.config
    model = model_class(model_class.config_class(**settings))
    model.to(DTYPES[layout.dtype])
    generator = torch.Generator().manual_seed(len(layout.name))
    with torch.no_grad():
        for parameter in model.parameters():
            # Biases and weights of normalisation as a trained model has them: not 0 and 1.
            noise = torch.randn(parameter.shape, generator=generator) * 0.1
            parameter.copy_(noise + float(parameter.ndim == 1))
    return model


def _more(layout, model):
    """What older versions of the code wrote besides today's weights."""
    depth = model.config.num_hidden_layers
    values = {}
    for pattern in layout.more:
        keys = [pattern]
        if "*" in pattern:
            keys = [pattern.replace("*", str(layer)) for layer in range(depth)]
        for key in keys:
            values[key] = _older_value(key, model.config).to(
                DTYPES[layout.dtype]
                if key.endswith(("weight", "bias")) and "attn" not in key
                else None
            )
    return values


def _older_value(key, config):
    if key.endswith("position_ids"):
        return torch.arange(config.max_position_embeddings)[None]
    if key.endswith("inv_freq"):
        return 1.0 / 10000.0 ** (torch.arange(0, 8, 2) / 8)
    if key.endswith("attn.bias"):
        return torch.tril(torch.ones(64, 64, dtype=torch.bool))[None, None]
    if key.endswith("masked_bias"):
        return torch.tensor(-1e9)
    if key.endswith("relative_attention_bias.weight"):
        return torch.randn(32, 4)
    if key.endswith("dense.weight"):
        return torch.randn(WIDTH, WIDTH)
    assert key.endswith("dense.bias"), key
    return torch.randn(WIDTH)


def _in_layout(layout, weights):
    """Weights by the names of the file."""
    named = {}
    for key, value in weights.items():
        if any(fnmatch.fnmatch(key, pattern) for pattern in layout.without):
            continue
        named[_older_name(layout, key)] = value
    return named


def _older_name(layout, key):
    # What the file holds besides has its name in the table as it is there.
    if key in layout.more:
        return key
    for pattern, new in layout.keys:
        key = re.sub(pattern, new, key)
    return key


def _write_config(layout, model, directory):
    """Write `config.json` as versions before 5 do: the class, and the type as `torch_dtype`."""
    settings = json.loads(model.config.to_json_string(use_diff=True))
    settings["architectures"] = [layout.architecture]
    settings.pop("dtype", None)
    settings["torch_dtype"] = str(DTYPES[layout.dtype]).removeprefix("torch.")
    settings["transformers_version"] = "4.21.0"
    (directory / "config.json").write_text(json.dumps(settings, indent=2))


def _add_tokens(directory, first, count):
    """Give `tokenizer.json` tokens for which the model has no embeddings."""
    file = directory / "tokenizer.json"
    content = json.loads(file.read_text("utf-8"))
    for number in range(first, first + count):
        content["added_tokens"].append(
            {
                "id": number,
                "content": "<image_soft_token>",
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        )
    file.write_text(json.dumps(content), "utf-8")


def _write_other_files(layout, directory):
    """Write what a reader has to leave alone: other formats, pages, settings of other libraries."""
    (directory / ".gitattributes").write_text(
        "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    )
    (directory / "README.md").write_text(f"---\nlicense: other\n---\n# {layout.name}\n")
    for name in layout.other_files:
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"{}" if name.endswith(".json") else b"not for PyTorch")


def _shards(weights, count):
    """Cut weights into files of like numbers of weights."""
    keys = list(weights)
    shards = []
    for number in range(count):
        start = number * len(keys) // count
        stop = (number + 1) * len(keys) // count
        shard = {}
        for key in keys[start:stop]:
            shard[key] = weights[key]
        shards.append(shard)
    return shards


def _file_names(stem, suffix, count):
    if count == 1:
        return [f"{stem}{suffix}"]
    return [
        f"{stem}-{number:05}-of-{count:05}{suffix}" for number in range(1, count + 1)
    ]


def _write_index(
    layout,
    shards,
    names,
    file,
):
    if layout.shards == 1:
        return
    places = {}
    size = 0
    for name, shard in zip(names, shards, strict=True):
        for key, value in shard.items():
            places[key] = name
            size += value.numel() * value.element_size()
    file.write_text(
        json.dumps({"metadata": {"total_size": size}, "weight_map": places})
    )


def _write_safetensors(layout, weights, directory):
    """Write each weight once, by its first name."""
    kept = _without_shared(weights)
    shards = _shards(kept, layout.shards)
    names = _file_names("model", ".safetensors", layout.shards)
    metadata = None if layout.no_metadata else {"format": "pt"}
    for name, shard in zip(names, shards, strict=True):
        save_file(shard, directory / name, metadata)
    _write_index(layout, shards, names, directory / "model.safetensors.index.json")
    if layout.consolidated:
        # The same weights by the names of the authors' own code.
        renamed = {key.removeprefix("model."): value for key, value in kept.items()}
        save_file(renamed, directory / "consolidated.safetensors", metadata)


def _without_shared(weights):
    """Weights by their first name where they share their memory."""
    kept = {}
    places = set()
    for key, value in weights.items():
        if value.data_ptr() not in places:
            places.add(value.data_ptr())
            kept[key] = value.contiguous()
    return kept


def _write_pickles(layout, weights, directory):
    shards = _shards(weights, layout.shards)
    names = _file_names("pytorch_model", ".bin", layout.shards)
    for name, shard in zip(names, shards, strict=True):
        # As `state_dict` gives it: ordered, with an attribute of its own.
        content = OrderedDict(shard)
        content._metadata = OrderedDict({"": {"version": 1}})
        torch.save(
            content,
            directory / name,
            _use_new_zipfile_serialization=not layout.old_pickle,
        )
    _write_index(layout, shards, names, directory / "pytorch_model.bin.index.json")


@attrs.define
class Zoo:
    """The replicas of a session, each built when it is first asked for."""

    directory: Path
    texts: Sequence[str]
    """What tokenizers are trained on."""
    layouts: Mapping[str, Layout] = attrs.field(factory=read_layouts)
    _tokenizers: dict[str, TokenizerFiles] = attrs.field(factory=dict, init=False)
    _replicas: dict[str, Replica] = attrs.field(factory=dict, init=False)

    def replica(self, name):
        """Return the replica of a repository."""
        if name not in self._replicas:
            layout = self.layouts[name]
            if layout.tokenizer not in self._tokenizers:
                self._tokenizers[layout.tokenizer] = KINDS[layout.tokenizer](self.texts)
            place = self.directory / name.replace("/", "--")
            self._replicas[name] = build_replica(
                layout, self._tokenizers[layout.tokenizer], place
            )
        return self._replicas[name]

    def publish(self, hub, name):
        """Put a replica on a hub, and return its repository there."""
        if name not in hub.repositories:
            replica = self.replica(name)
            repository = hub.add(name, replica.main)
            repository.gated = replica.layout.gated
        return hub.repositories[name]
