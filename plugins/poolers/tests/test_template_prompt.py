from __future__ import annotations

import hashlib
import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed import DataError, SentbedError
from sentbed_poolers.prompt_eol import PromptEOL
from sentbed_poolers.template_prompt import (
    NORMALIZERS,
    TEMPLATES,
    Demonstration,
    TemplatePrompt,
    parse_template,
    read_line,
)

# Sentence, and what the evaluation rules of the released code make of it; written by hand.
RULES = [
    ("Is it raining?", "Is it raining."),
    ('He said "no"', "He said 'no'"),
    ("It is the dogs'", "It is the dogs'"),
    ("A man sings", "A man sings."),
    ("A man sings.", "A man sings."),
    ('"Why?"', "'Why?'"),
    ("really??", "really?."),
    ("", ""),
    ("是吗？", "是吗？."),
    ("{text} {mask} {} _ *sent_0* %s \\1", "{text} {mask} {} _ *sent_0* %s \\1."),
]
SENTENCES = [sentence for sentence, _ in RULES]


OF_POOLER = PromptEOL().prompt
"""The prompt that a pooler has by default."""


def filled(prompt, sentence, normalize=True):
    resolved = prompt.resolve()
    return resolved.apply(sentence, normalize)


# --- the published strings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("sentence", "expected"), RULES)
def test_text_rules_are_those_of_the_released_code(sentence, expected):
    assert NORMALIZERS["prompt-eol"](sentence) == expected
    assert NORMALIZERS["none"](sentence) == sentence


SHOWN = Demonstration("A jockey riding a horse.", "Equestrian")
BEFORE = 'This sentence : "'
AFTER = '" means in one word:"'
BEFORE_SHOWN = f'{BEFORE}A jockey riding a horse.{AFTER}Equestrian".{BEFORE}'


@pytest.mark.parametrize(
    ("prompt", "before", "after"),
    [
        (TemplatePrompt("prompt"), BEFORE, '" means'),
        (TemplatePrompt("prompt-eol"), BEFORE, AFTER),
        (TemplatePrompt("prompt-eol", demonstration=SHOWN), BEFORE_SHOWN, AFTER),
        (
            TemplatePrompt(BEFORE + "{text}" + AFTER, demonstration=SHOWN),
            BEFORE_SHOWN,
            AFTER,
        ),
    ],
)
@pytest.mark.parametrize(("sentence", "normal"), RULES)
def test_a_prompt_is_byte_for_byte_the_published_one(
    sentence, normal, prompt, before, after
):
    with_rules = attrs.evolve(prompt, normalizer="prompt-eol")
    assert filled(with_rules, sentence) == before + normal + after
    without_rules = before + sentence + after
    assert filled(with_rules, sentence, normalize=False) == without_rules
    assert filled(prompt, sentence) == without_rules


def test_white_space_around_the_whole_is_stripped_and_none_within():
    template = parse_template(" say :  {text} ")
    assert template.fill(" a ") == "say :   a"
    assert template.fill("") == "say :"
    assert parse_template("{text}").fill(" \n a \t") == "a"


PUBLISHED = {
    "pretended-cot": "d3ef849f279f91e5",
    "knowledge": "56ee53a62011d7a5",
    "prompt-sth": "12306545df88c213",
    "prompt-sum": "48362d468a6a5416",
    "meta-eol-1": "cc3a4c1bcf4a41fb",
    "meta-eol-2": "529ba25312207950",
    "meta-eol-3": "23e150085dc65013",
    "meta-eol-4": "0d8ab115a2792142",
    "meta-eol-5": "966cec52c1bd7ca1",
    "meta-eol-6": "23378ce0a78f376f",
    "meta-eol-7": "402c1772fbb3f0f2",
    "meta-eol-8": "b8380ca8e5c16268",
    "echo": "99585480fc6f281d",
    "echo-document": "f8101808b71e5c13",
}
"""Beginning of the SHA-256 of the successors' templates, from the papers' own strings."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_templates_of_prompteols_successors_are_theirs_byte_for_byte(name):
    content = str(parse_template(name)).encode()
    assert hashlib.sha256(content).hexdigest()[:16] == PUBLISHED[name]


# --- a sentence is data ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "template", [*TEMPLATES, '*cls*_In_"*sent_0*"_:*mask*.*sep+*', "a {text} b {mask}"]
)
@pytest.mark.parametrize("sentence", [*SENTENCES, "*cls**mask**sep+*", "[MASK]"])
def test_nothing_in_a_sentence_is_taken_for_a_part_of_the_template(template, sentence):
    parsed = parse_template(template)
    assert (
        parsed.fill(sentence, "<m>")
        == parsed.fill("SENTENCE", "<m>").replace("SENTENCE", sentence).strip()
    )


# --- templates ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shell", "plain"),
    [
        (
            'This_sentence_:_"*sent_0*"_means_in_one_word:"',
            'This sentence : "{text}" means in one word:"',
        ),
        (
            '*cls*_This_sentence_of_"*sent_0*"_means*mask*.*sep+*',
            ' This sentence of "{text}" means{mask}.',
        ),
        ("*sent_0*", "{text}"),
        ("*cls**sent_0*_*sep+*", "{text} "),
    ],
)
def test_the_shell_form_means_the_template_with_spaces_and_places(shell, plain):
    assert str(parse_template(shell)) == plain
    assert parse_template(plain) == parse_template(shell)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prompt-eo", "there is no template `prompt-eo`. Did you mean `prompt-eol`?"),
        (
            "Summary:",
            "there is no template `Summary:`. Choose one of `echo`, ",
        ),
        ("", "there is no template ``. Choose one of"),
        (
            "This sentence means",
            "'This sentence means' has 0 places for the sentence; write `{text}` once",
        ),
        (
            "{text} and {text}, {text}",
            "'{text} and {text}, {text}' has 3 places for the sentence",
        ),
        (
            "*sent_0*_*sent_0* *sent_0*",
            "'{text} {text} {text}' has 3 places for the sentence",
        ),
        (
            "{text} {mask} {text}",
            "must have `{mask}` at most once, and behind `{text}`",
        ),
        (
            "{mask} {text}",
            "must have `{mask}` at most once, and behind `{text}`; move it",
        ),
        ("*mask*_*sent_0*", "must have `{mask}` at most once, and behind `{text}`"),
        (
            "{text} {mask} {mask}",
            "must have `{mask}` at most once, and behind `{text}`",
        ),
    ],
)
def test_a_text_that_is_no_template_is_refused(text, message):
    with pytest.raises(SentbedError, match=re.escape(message)):
        parse_template(text)
    assert [message in problem for problem in TemplatePrompt(text).check()] == [True]


# --- what is in force --------------------------------------------------------------------------------------


def test_the_pooler_brings_template_and_text_rules():
    resolved = TemplatePrompt().resolve(OF_POOLER)
    assert resolved.describe() == {
        "template": 'This sentence : "{text}" means in one word:"',
        "normalizer": "prompt-eol",
    }
    assert resolved.apply("A dog") == 'This sentence : "A dog." means in one word:"'


def test_the_recipe_overrules_the_pooler_in_each_part_alone():
    def parts(prompt):
        resolved = prompt.resolve(OF_POOLER)
        return resolved.describe()["template"], resolved.normalizer

    assert parts(TemplatePrompt("<{text}>")) == ("<{text}>", "prompt-eol")
    assert parts(TemplatePrompt(normalizer="none")) == (TEMPLATES["prompt-eol"], "none")
    shown = parts(TemplatePrompt(demonstration=Demonstration("Rain.", "Wet")))
    assert shown[0].startswith(
        'This sentence : "Rain." means in one word:"Wet".This sentence : "{text}"'
    )


@pytest.mark.parametrize(
    ("prompt", "what"),
    [
        (
            TemplatePrompt(demonstration=Demonstration("Rain.", "Wet")),
            "a demonstration",
        ),
        (TemplatePrompt(normalizer="prompt-eol"), "text rules"),
    ],
)
def test_parts_of_a_prompt_need_a_template(prompt, what):
    message = f"`prompt` has {what} but no template; give it a `template`"
    with pytest.raises(SentbedError, match=re.escape(message)):
        prompt.resolve()
    assert prompt.resolve(OF_POOLER) is not None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, None),
        ({"template": "<{text}>", "line": 2}, "`prompt` has a `line` but no `file`"),
        (
            {"template": "prompt", "file": "t.txt"},
            "`prompt` has both `template` and `file`; give one",
        ),
        (
            {
                "template": "prompt-eol",
                "demonstration": (SHOWN, Demonstration("Sun.", "")),
            },
            "the demonstration has an empty `text` or `word`; give both",
        ),
    ],
)
def test_fields_that_contradict_each_other_are_a_problem(fields, problem):
    problems = list(TemplatePrompt(**fields).check())
    assert len(problems) == (problem is not None)
    for message in problems:
        assert message.startswith(problem)


# --- demonstrations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prompt", "prompt-bert", 'a {text} {mask} "'])
def test_a_template_that_asks_for_no_word_cannot_take_a_demonstration(name):
    message = 'cannot take a demonstration: its word goes behind a last `"`; use a template that ends in one'
    with pytest.raises(SentbedError, match=re.escape(message)):
        TemplatePrompt(name, demonstration=Demonstration("Rain.", "Wet")).resolve()


@given(
    st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), max_size=4), st.text()
)
def test_demonstrations_stand_in_their_order(shown, sentence):
    demonstrations = tuple(Demonstration(text, word) for text, word in shown)
    prompt = TemplatePrompt("prompt-eol", demonstration=demonstrations)
    assert list(prompt.check()) == []
    before = "".join(f'{BEFORE}{text}{AFTER}{word}".' for text, word in shown)
    assert filled(prompt, sentence) == before + BEFORE + sentence + AFTER


# --- files -------------------------------------------------------------------------------------------------

SHELL = (
    'This_sentence_:_"Rain_falls."_means_in_one_word:"Wet".This_sentence_:_"*sent_0*"_means_in_one_word:"',
    'This_sentence_:_"*sent_0*"_means',
    '*cls*_In_short:_"*sent_0*"_is*mask*.*sep+*',
)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_line_of_a_file_is_the_template(put, end, mark):
    file = str(put("templates.txt", mark + "".join(line + end for line in SHELL)))
    assert [read_line(file, number) for number in (1, 2, 3)] == list(SHELL)
    assert filled(TemplatePrompt(file=file), "A dog.") == (
        'This sentence : "Rain falls." means in one word:"Wet".This sentence : "A dog." means in one word:"'
    )
    assert (
        filled(TemplatePrompt(file=file, line=2), "A dog.")
        == 'This sentence : "A dog." means'
    )
    assert list(TemplatePrompt(file=file, line=3).check()) == []


def test_a_line_that_is_not_there_is_named(put):
    file = put("t.txt", "*sent_0*\n*sent_0*\n")
    with pytest.raises(
        DataError,
        match=re.escape(f"the file has 2 lines; choose a `line` up to that @ {file}"),
    ):
        TemplatePrompt(file=str(file), line=3).resolve()
    with pytest.raises(DataError, match="the file has 0 lines"):
        read_line(str(put("empty.txt", "")), 1)
    with pytest.raises(DataError, match="does not exist; check the path"):
        read_line(str(file.with_name("none.txt")), 1)


def test_a_line_that_is_no_template_is_named_with_file_and_line(put):
    file = put("t.txt", "*sent_0*\nno_place\n")
    (problem,) = TemplatePrompt(file=str(file), line=2).check()
    assert problem.startswith("there is no template `no_place`.")
    assert problem.endswith(f"@ {file}:2")


def test_a_prompt_without_its_file_is_the_same_prompt(put):
    file = put("t.txt", "\n".join(SHELL))
    for line in (1, 2, 3):
        prompt = TemplatePrompt(file=str(file), line=line, normalizer="prompt-eol")
        alone = prompt.self_contained()
        assert (alone.file, alone.line, alone.normalizer) == (None, 1, "prompt-eol")
        assert alone.resolve() == prompt.resolve()
    named = TemplatePrompt("prompt")
    assert named.self_contained() is named


def test_prompt_bert_has_its_mask_before_the_full_stop():
    assert (
        parse_template("prompt-bert").fill("A dog.", "[MASK]")
        == 'This sentence of "A dog." means[MASK].'
    )
