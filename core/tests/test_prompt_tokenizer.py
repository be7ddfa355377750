"""A text in its prompt: what is cut, and what is never cut."""

from __future__ import annotations

import pytest
from sentbed import ModelError
from sentbed._encoder.prompt_tokenizer import PromptTokenizer
from sentbed_poolers.template_prompt import TemplatePrompt
from toy_plugin import CharacterTokenizer


def tokenizer_of(
    template,
    normalizer="prompt-eol",
    **of_original,
):
    original = CharacterTokenizer(**of_original)
    prompt = TemplatePrompt(template, normalizer=normalizer).resolve()
    assert prompt is not None
    return PromptTokenizer(original, prompt, 1000), original


def test_the_template_is_never_cut_and_max_length_is_for_the_sentence_alone():
    tokenizer, _ = tokenizer_of("<<<<{text}>>>>", normalizer="none")
    assert tokenizer.encode(["abcdef", "a"], 2).lengths.tolist() == [
        1 + 4 + 2 + 4,
        1 + 4 + 1 + 4,
    ]
    assert tokenizer.truncate(["abcdef", "a"], 2) == ["ab", "a"]


def test_the_mask_is_written_as_the_vocabulary_writes_it():
    tokenizer, original = tokenizer_of("prompt-bert", mask_token="<mask>", pad_id=3)
    tokenizer.encode(["A {mask}?"], 20)
    assert original.seen == ['This sentence of "A {mask}." means<mask>.']
    assert (tokenizer.mask_token, tokenizer.pad_id) == ("<mask>", 3)


def test_a_mask_in_the_template_needs_one_in_the_vocabulary():
    tokenizer, original = tokenizer_of("prompt-bert")
    with pytest.raises(
        ModelError,
        match=r"has a `\{mask\}`, and the tokenizer has no mask token; take it out",
    ):
        tokenizer.encode(["A dog."], 20)
    assert original.seen == []
