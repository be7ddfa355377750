from __future__ import annotations

import importlib.util
import re
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from sentbed import Encoder, ModelError
from sentbed.errors import NotFiniteError
from sentbed_poolers.template_prompt import TemplatePrompt

pytest.importorskip("onnxscript", reason="needs the extra `onnx`")

from sentbed_interop._torch import onnx_folder, onnx_graph
from sentbed_interop.to_onnx import ToONNX

TINY = {"init": "random", "size": "tiny", "vocab_size": 400}
BERT = {"use": "bert", **TINY}
MORE: dict[str, dict[str, Any]] = {
    "bert-mask": {"backbone": BERT, "pooler": {"use": "mask"}},
    "bert-layers": {"backbone": BERT, "pooler": {"use": "mean-first-last"}},
    "bert-cls-lora": {
        "backbone": {**BERT, "lora": {"r": 4}},
        "pooler": {"use": "cls-mlp"},
    },
    "t5-decoder": {"backbone": {"use": "t5", **TINY}, "pooler": {"use": "decoder"}},
    "opt-filter": {
        "backbone": {"use": "opt", **TINY},
        "pooler": {"use": "prompt-eol"},
        "head": {"normalize": True, "transform": {"use": "embed-filter"}},
    },
    "llama-last": {
        "backbone": {"use": "causal", **TINY},
        "pooler": {"use": "last"},
        "head": {"projection": 16, "bias": True},
        "similarity": "dot",
    },
    "static-mean": {
        "backbone": {"use": "static", "init": "random", "vocab_size": 400},
        "pooler": {"use": "mean"},
    },
}
"""Encoders beside those of the fixtures."""
FIXTURES = {
    "bert-projection": "tiny_bert",
    "t5-mean": "tiny_t5",
    "opt-prompt": "tiny_opt_prompt",
}
SLOW = [
    pytest.param(name, marks=pytest.mark.slow) for name in (*FIXTURES, "minilm", *MORE)
]
"""The first test of each exports it."""
TEXTS = (
    "Two small birds sing in the old tree behind the house.",
    "A dog barks, loudly!",
    "",
    'Did he say "no"?',
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    * 3,
)

Exported = SimpleNamespace
"""`encoder`, as it is after the export, its `directory`, that of the export (`to`), and a `session`."""


@pytest.fixture(scope="module")
def exported(
    request,
    make_encoder,
    tmp_path_factory,
):
    """Export an encoder, once a name."""
    import onnxruntime

    exports = {}

    def export(name):
        if name not in exports:
            if name in MORE:
                directory = make_encoder(name, max_length=20, **MORE[name])
            else:
                directory = request.getfixturevalue(FIXTURES.get(name, name))
            encoder = Encoder.load(directory)
            draw = torch.Generator().manual_seed(0)
            for key, value in encoder.placed.module.named_parameters():
                if "lora_B" in key:
                    torch.nn.init.normal_(value, 0, 0.1, generator=draw)
            to = tmp_path_factory.mktemp("onnx")
            ToONNX().write(encoder, to)
            session = onnxruntime.InferenceSession(
                to / "model.onnx", providers=["CPUExecutionProvider"]
            )
            exports[name] = Exported(
                encoder=encoder, directory=directory, to=to, session=session
            )
        return exports[name]

    return export


def run(session, ids, mask):
    return session.run(
        None, {"input_ids": np.array(ids), "attention_mask": np.array(mask)}
    )[0]


def assert_close(vectors, expected):
    np.testing.assert_allclose(
        vectors, expected, rtol=0, atol=1e-4 * np.abs(expected).max()
    )


@pytest.mark.parametrize("name", SLOW)
def test_onnxruntime_gives_the_vectors_of_torch(name, exported):
    export = exported(name)
    encoder, longest = export.encoder, onnx_graph.longest_input(export.encoder)
    # No adapter is merged here, and no batch padded.
    module = encoder.placed.module.eval()
    token_ids = encoder.backbone.tokenizer.encode([" ".join(TEXTS)], 500).ids.astype(
        np.int64
    )
    draw = np.random.default_rng(1)

    def alone(ids):
        with torch.no_grad():
            return module(torch.from_numpy(ids)[None], None).numpy()[0]

    every = (1, 2, 7, 63, longest)
    if longest < 100:
        every = range(1, longest + 1)
    for length in every:
        ids = draw.choice(token_ids, length)
        assert_close(run(export.session, [ids], [np.ones_like(ids)])[0], alone(ids))
    for rows in (2, 3, 9):
        lengths = draw.integers(1, min(longest, 40) + 1, rows)
        texts = [draw.choice(token_ids, length) for length in lengths]
        widest = lengths.max()
        pad = encoder.backbone.tokenizer.pad_id
        ids = []
        mask = []
        for text in texts:
            padding = widest - len(text)
            ids.append([*text, *[pad] * padding])
            mask.append([1] * len(text) + [0] * padding)
        vectors = run(export.session, ids, mask)
        expected = [alone(text) for text in texts]
        assert_close(vectors, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bert-projection", "opt-prompt", "bert-mask", "static-mean"]
)
def test_the_code_of_the_readme_gives_the_encoders_vectors(name, exported, monkeypatch):
    export = exported(name)
    (code,) = re.findall(
        "```python\n(.*?)```", (export.to / "README.md").read_text(), re.DOTALL
    )
    texts = list(TEXTS)
    if name == "static-mean":
        # An empty text has no token there.
        texts.remove("")
    code, changed = re.subn(r"texts = \[\".*\]\n", f"texts = {texts!r}\n", code)
    assert changed == 1

    monkeypatch.chdir(export.to)
    names = {}
    exec(code, names)
    assert_close(names["vectors"], export.encoder.encode(texts))


@pytest.mark.slow
def test_the_encoder_stays_as_it_was_and_no_file_of_this_machine_is_named(exported):
    export = exported("llama-last")
    vectors = export.encoder.encode(TEXTS)
    expected = Encoder.load(export.directory).encode(TEXTS)
    np.testing.assert_array_equal(vectors, expected)
    content = (export.to / "model.onnx").read_bytes()
    assert b"sentence_embedding" in content
    assert b".py" not in content

    readme = (export.to / "README.md").read_text()
    assert "compared by the similarity `dot`" in readme


@pytest.mark.slow
def test_much_lies_beside_the_graph(exported, monkeypatch, tmp_path):
    export = exported("bert-projection")
    monkeypatch.setattr(onnx_graph, "ONE_FILE", 10_000)
    # onnxruntime must find the weights beside the graph, and with opset 18.
    ToONNX(opset=18).write(export.encoder, tmp_path)
    assert (tmp_path / "model.onnx.data").stat().st_size > 1_000_000
    assert (tmp_path / "model.onnx").stat().st_size < 1_000_000


@pytest.mark.slow
def test_other_vectors_are_an_error_with_the_figure(exported, monkeypatch, tmp_path):
    export = exported("bert-projection")
    graph = (export.to / "model.onnx").read_bytes()
    monkeypatch.setattr(
        onnx_folder, "write_graph", lambda _, path, *__: path.write_bytes(graph)
    )
    encoder = Encoder.load(export.directory)
    ToONNX().write(encoder, tmp_path)
    with torch.no_grad():
        encoder.placed.module.projection.weight[0] *= 1.01
    encoder.placed.weights_changed()
    with pytest.raises(
        ModelError,
        match=r"differ from the encoder's by \d\.\de-03 of their largest value",
    ):
        ToONNX().write(encoder, tmp_path)
    with torch.no_grad():
        encoder.placed.module.projection.weight[0] = float("nan")
    encoder.placed.weights_changed()
    with pytest.raises(NotFiniteError, match="infinite values, first in `projection"):
        ToONNX().write(encoder, tmp_path)


class OfThisBatch(torch.nn.Module):
    def forward(self, states):
        hidden = states.last_hidden_state
        return hidden[:, 0] + hidden.new_ones(len(hidden), 1)


class Branches(torch.nn.Module):
    def forward(self, states):
        hidden = states.last_hidden_state
        return hidden[:, 0] if float(hidden.sum()) > 0 else hidden[:, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooler", "message"),
    [
        (
            OfThisBatch(),
            r"on batches of other sizes and lengths: .* `tensor.shape\[0\]`",
        ),
        (
            Branches(),
            "the backbone `bert` or the pooler `mean` cannot be traced into a graph: ",
        ),
    ],
)
def test_what_cannot_be_traced_is_refused(pooler, message, tiny_bert, tmp_path):
    encoder = Encoder.load(tiny_bert)
    encoder.placed.module.pooler = pooler
    with pytest.raises(ModelError, match=message):
        ToONNX().write(encoder, tmp_path)
    assert torch.is_autocast_cache_enabled()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"dtype": "bf16"},
            r'held in bf16, .*; set `dtype = "fp32"` in the encoder\'s `encoder.toml`',
        ),
        (
            {"quantization": "nf4"},
            r"held in 4 bits .*; write plain weights with `sentbed export ENCODER PLAIN`",
        ),
    ],
)
def test_weights_below_fp32_are_refused_with_the_alternative(
    fields, message, tiny_bert, tmp_path
):
    encoder = Encoder.load(tiny_bert)
    backbone = attrs.evolve(encoder.recipe.backbone, **fields)
    encoder.recipe = attrs.evolve(encoder.recipe, backbone=backbone)
    with pytest.raises(ModelError, match=message):
        ToONNX().write(encoder, tmp_path)
    assert not list(tmp_path.iterdir())


def test_prompts_of_tasks_are_no_part_of_a_graph(tiny_bert, tmp_path):
    encoder = Encoder.load(tiny_bert)
    task_prompts = {"query": TemplatePrompt("query: {text}")}
    encoder.recipe = attrs.evolve(encoder.recipe, task_prompts=task_prompts)
    with pytest.raises(
        ModelError, match="has prompts for `query`, and the graph's tokenizer has one"
    ):
        ToONNX().write(encoder, tmp_path)


def test_a_missing_package_is_named_before_anything_is_done(monkeypatch, tmp_path):
    assert list(ToONNX().check()) == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match="needs `onnx`, `onnxruntime`, `onnxscript`"):
        ToONNX().write(None, tmp_path)
