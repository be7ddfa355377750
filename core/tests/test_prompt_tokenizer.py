"""A text in its prompt: what is cut, and what is never cut."""

from __future__ import annotations

import pytest
from sentbed import ModelError
from sentbed._encoder.prompt_tokenizer import PromptTokenizer
from sentbed_poolers.template_prompt import TemplatePrompt
from toy_fixtures import exactly
from toy_plugin import CharacterTokenizer


def tokenizer_of(
    template,
    longest=1000,
    normalize=True,
    normalizer="prompt-eol",
    **of_original,
):
    original = CharacterTokenizer(**of_original)
    prompt = TemplatePrompt(template, normalizer=normalizer).resolve()
    assert prompt is not None
    return PromptTokenizer(original, prompt, longest, normalize), original


def test_the_sentence_is_cut_then_the_rules_are_applied_then_it_is_put_in():
    tokenizer, original = tokenizer_of("prompt-eol")
    tokenizer.encode(["Really? No", "A dog", ""], 7)
    assert original.seen == [
        'This sentence : "Really." means in one word:"',
        'This sentence : "A dog." means in one word:"',
        'This sentence : "" means in one word:"',
    ]


def test_without_its_rules_the_text_is_cut_and_put_in_as_it_is():
    tokenizer, original = tokenizer_of("<{text}>", normalize=False)
    tokenizer.encode(["Really? No", 'A "dog"?'], 7)
    assert original.seen == ["<Really?>", '<A "dog">']


def test_the_template_is_never_cut_and_max_length_is_for_the_sentence_alone():
    tokenizer, _ = tokenizer_of("<<<<{text}>>>>", normalizer="none")
    assert tokenizer.encode(["abcdef", "a"], 2).lengths.tolist() == [
        1 + 4 + 2 + 4,
        1 + 4 + 1 + 4,
    ]
    assert tokenizer.truncate(["abcdef", "a"], 2) == ["ab", "a"]


def test_a_prompt_longer_than_the_positions_is_refused_with_the_figures():
    tokenizer, _ = tokenizer_of("<<{text}>>", longest=9, normalizer="none")
    assert tokenizer.encode(["abcd"], 4).lengths.tolist() == [9]
    with pytest.raises(
        ModelError,
        match=exactly(
            "a prompt has 10 tokens, the backbone has positions for 9; lower `max_length` (it is 5, for the "
            "sentence without its template) or shorten the template"
        ),
    ):
        tokenizer.encode(["a", "abcdefgh"], 5)


def test_no_texts_give_no_rows_whatever_the_template():
    tokenizer, _ = tokenizer_of("<<{text}>>", longest=1)
    assert len(tokenizer.encode([], 5)) == 0


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
