"""Prompts of tasks as MTEB gives them: the token ids and vectors are those of its own wrapper."""

from __future__ import annotations

import importlib.util
import warnings
from itertools import pairwise
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
import torch
from sentbed import Encoder
from sentbed.protocols import EncoderRecipe, Head
from sentbed_backbones.bert import Bert
from sentbed_evaluators.mteb import as_mteb_model
from sentbed_hardware.cpu import Cpu
from sentbed_interop.export_and_import import export_encoder
from sentbed_poolers.mean import Mean
from sentbed_poolers.template_prompt import TemplatePrompt

pytestmark = [
    pytest.mark.slow,
    # mteb and sentence-transformers warn of their own arguments.
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        importlib.util.find_spec("mteb") is None, reason="needs the extra `mteb`"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("sentence_transformers") is None,
        reason="needs sentence-transformers",
    ),
]

TEXTS = ["A dog runs through the wet grass.", "Prices fell, again!", "why"]
LONG = ["A dog runs through the wet grass. " * 20, "why " * 100]
"""Texts that are cut."""
PROMPTS = {
    "STS12": "same meaning: ",
    "Retrieval-query": "Find what answers this. Query: ",
    "SciFact-document": "paper: ",
    "document": "passage: ",
    "Classification": "Which intent is it? ",
    "Clustering": "topic; ",
    "PairClassification": "Are they duplicates? ",
}
CASES = [
    ("STS12", None),
    ("SciFact", "query"),
    ("SciFact", "document"),
    ("NFCorpus", "document"),
    ("Banking77Classification", None),
    ("TwentyNewsgroupsClustering.v2", None),
    ("SprintDuplicateQuestions", None),
    ("STS13", None),
]
"""Tasks of five types; the last one has no prompt."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.manual_seed(0)
    backbone = Bert(init="random", size="tiny", vocab_size=400)
    recipe = EncoderRecipe(backbone, Mean(), Head(), max_length=64)
    corpus = [*TEXTS, *PROMPTS.values()]
    built = Encoder.build(recipe, Cpu(precision="fp32").build(), lambda: corpus)
    directory = tmp_path_factory.mktemp("encoder") / "saved"
    built.save(directory)
    return Encoder.load(directory)


def with_prompts(encoder, prompts):
    task_prompts = {
        key: TemplatePrompt(f"{prompt}{{text}}") for key, prompt in prompts.items()
    }
    return attrs.evolve(
        encoder, recipe=attrs.evolve(encoder.recipe, task_prompts=task_prompts)
    )


@pytest.fixture(scope="module")
def theirs(encoder, tmp_path_factory):
    """The same model in MTEB's wrapper of sentence-transformers, with the same prompts."""
    from mteb.models.sentence_transformer_wrapper import (
        SentenceTransformerEncoderWrapper,
    )
    from sentence_transformers import SentenceTransformer

    folder = tmp_path_factory.mktemp("folder") / "folder"
    export_encoder(encoder.source, folder, "sentence-transformers")
    model = SentenceTransformer(str(folder), device="cpu")
    return SentenceTransformerEncoderWrapper(model, model_prompts=PROMPTS)


def batches(texts):
    import datasets
    from torch.utils.data import DataLoader

    return DataLoader(datasets.Dataset.from_dict({"text": texts}), batch_size=2)


@pytest.mark.parametrize(("task", "side"), CASES)
def test_ids_and_vectors_are_those_of_mteb(encoder, theirs, task, side):
    import mteb
    from mteb.types import PromptType
    from sentbed_evaluators._mteb.adapter import text_task

    metadata = mteb.get_task(task).metadata
    prompt_type = None if side is None else PromptType(side)
    where = {
        "task_metadata": metadata,
        "prompt_type": prompt_type,
        "hf_split": "test",
        "hf_subset": "default",
    }
    ours = as_mteb_model(with_prompts(encoder, PROMPTS))
    vectors = ours.encode(batches(TEXTS + LONG), **where)
    expected = theirs.encode(
        batches(TEXTS + LONG), batch_size=2, show_progress_bar=False, **where
    )
    np.testing.assert_allclose(vectors, np.asarray(expected), atol=1e-5)

    name = theirs.get_prompt_name(metadata, prompt_type)
    assert (name is None) == (task == "STS13")
    texts = [PROMPTS.get(name or "", "") + text for text in TEXTS]
    with_prompt = with_prompts(encoder, PROMPTS).for_task(
        text_task(metadata, prompt_type)
    )
    tokens = with_prompt.tokenizer().encode(TEXTS, 64)
    their_ids = theirs.model.tokenizer(texts)["input_ids"]
    starts = np.cumsum([0, *tokens.lengths])
    ids = [tokens.ids[start:end].tolist() for start, end in pairwise(starts)]
    assert ids == their_ids


@pytest.mark.parametrize(("task", "side"), CASES)
def test_instructions_are_those_of_mteb(task, side):
    import mteb
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.types import PromptType
    from sentbed_evaluators._mteb.adapter import text_task

    metadata = mteb.get_task(task).metadata
    prompt_type = None if side is None else PromptType(side)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where a side has no instruction
        expected = AbsEncoder.get_instruction(
            SimpleNamespace(prompts_dict=None), metadata, prompt_type
        )
    assert text_task(metadata, prompt_type).instruction == expected
