from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed import DataError, SentbedError
from sentbed._recipe.prompts import Demonstration, Prompt, Template, parse_template
from sentbed.protocols import Pooler, PoolerTraits
from sentbed_studies.demonstration_candidates import demonstrations_in, read_candidates
from sentbed_studies.plugin import known_data

SHELL = (
    'This_sentence_:_"Rain_falls."_means_in_one_word:"Wet".This_sentence_:_"*sent_0*"_means_in_one_word:"',
    'This_sentence_:_"*sent_0*"_means',
    '*cls*_In_short:_"*sent_0*"_is*mask*.*sep+*',
)


@attrs.frozen
class Said(Pooler):
    """A pooler that brings a prompt."""

    name: ClassVar[str] = "said"
    traits: ClassVar[PoolerTraits] = PoolerTraits(
        template="prompt-eol", normalizer="prompt-eol"
    )

    def build(self, width):
        raise AssertionError("a prompt needs no module")


@attrs.frozen
class Silent(Pooler):
    """A pooler that brings none."""

    name: ClassVar[str] = "silent"

    def build(self, width):
        raise AssertionError("a prompt needs no module")


@pytest.fixture
def read(put):
    """Read a file of candidates with this name and content, for a prompt, or the template of one."""

    def candidates(name, content, prompt="prompt-eol"):
        if isinstance(prompt, str):
            prompt = Prompt(prompt)
        return read_candidates(str(put(name, content)), prompt, Silent())

    return candidates


def filled(prompt, sentence, normalize=True):
    resolved = prompt.resolve()
    assert resolved is not None
    return resolved.apply(sentence, normalize)


def test_a_table_of_candidates_is_read_as_demonstrations(put):
    file = put("c.tsv", 'sentence\tword\nRain_falls.\tWet\nIt\'s "so" 我 {text}\tOk\n')
    bare = Prompt(normalizer="none")
    assert read_candidates(str(file), bare, Said()) == [
        Prompt(normalizer="none", demonstration=Demonstration("Rain_falls.", "Wet")),
        Prompt(
            normalizer="none", demonstration=Demonstration('It\'s "so" 我 {text}', "Ok")
        ),
    ]


def test_a_candidate_takes_the_place_of_the_demonstration_in_the_recipe(read):
    prompt = Prompt("prompt-eol", demonstration=Demonstration("Sun.", "Dry"))
    rain = Prompt("prompt-eol", demonstration=Demonstration("Rain.", "Wet"))
    assert read("c.tsv", "sentence\tword\nRain.\tWet\n", prompt) == [rain]


def test_templates_of_the_same_form_are_demonstrations_and_others_stand_as_they_are(
    read,
):
    assert read(
        "c.txt", "\n".join((*SHELL[:2], 'Say_"Sun.":"Dry".Say_"*sent_0*":"'))
    ) == [
        Prompt("prompt-eol", demonstration=Demonstration("Rain falls.", "Wet")),
        Prompt('This sentence : "{text}" means'),
        Prompt('Say "Sun.":"Dry".Say "{text}":"'),
    ]


@pytest.mark.parametrize("base", ["prompt", "prompt-bert", "say {text}"])
def test_whole_templates_need_no_prompt_that_takes_a_demonstration(read, base):
    (candidate,) = read("c.txt", SHELL[0], base)
    assert filled(candidate, "A dog.") == (
        'This sentence : "Rain falls." means in one word:"Wet".This sentence : "A dog." means in one word:"'
    )


def test_every_candidate_of_an_encoder_can_be_used(put):
    """A candidate resolves to its line, whatever the recipe's own prompt was read from."""
    prompt_file = put("own.txt", "\n".join(SHELL))
    file = put("c.txt", "\n".join(SHELL))
    for prompt in (
        Prompt(),
        Prompt("prompt"),
        Prompt(file=str(prompt_file)),
        Prompt(file=str(prompt_file), line=2),
    ):
        resolved = [
            candidate.resolve(Said())
            for candidate in read_candidates(str(file), prompt, Said())
        ]
        assert [str(r.template) for r in resolved if r is not None] == [
            str(parse_template(s)) for s in SHELL
        ]


def test_without_a_template_there_are_no_candidates(read):
    with pytest.raises(
        SentbedError, match="the encoder has none; give it one, such as"
    ):
        read("c.tsv", "sentence\tword\nRain.\tWet\n", Prompt())


ANSWER = '{"sentence": "Sun.", "answer": "Dry"}\n'
PAIR = "expected an object with the texts `sentence` and `answer`"


@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        ("c.tsv", "", 1, "expected the header `sentence<TAB>word`"),
        ("c.tsv", "Rain.\tWet\n", 1, "expected the header `sentence<TAB>word`"),
        ("c.tsv", "sentence\tword\n", None, "the file has no candidates"),
        ("c.txt", "", None, "the file has no candidates"),
        (
            "c.tsv",
            "sentence\tword\nRain.\tWet\nSun.\n",
            3,
            "found 'Sun.', expected a sentence, a tab and a word",
        ),
        (
            "c.tsv",
            "sentence\tword\n\tWet\n",
            2,
            "found '\\tWet', expected a sentence, a tab and a word",
        ),
        (
            "c.tsv",
            "sentence\tword\tsentence\nRain.\tWet\tSun.\n",
            1,
            "both again for each further demonstration",
        ),
        (
            "c.tsv",
            "sentence\tword\tsentence\tword\nA.\tB\n",
            2,
            "expected 2 times a sentence and a word",
        ),
        (
            "c.tsv",
            "sentence\tword\nRain.\t\n",
            2,
            "expected a sentence, a tab and a word",
        ),
        (
            "c.tsv",
            "sentence\tword\nRain.\tWet\tmore\n",
            2,
            "expected a sentence, a tab and a word",
        ),
        (
            "c.tsv",
            "sentence\tword\nRain.\tWet\n\nSun.\tDry\n",
            3,
            "found '', expected a sentence",
        ),
        ("c.txt", f"{SHELL[0]}\nno place here\n", 2, "has 0 places for the sentence"),
        (
            "c.txt",
            f"{SHELL[0]}\n{SHELL[1]}\n*sent_0**sent_0**sent_0*\n",
            3,
            "has 3 places for the sentence",
        ),
        ("c.txt", f"{SHELL[0]}\n\n{SHELL[1]}\n", 2, "there is no template ``"),
        (
            "a.jsonl",
            f'{ANSWER}{{"sentence": "Rain.", "answer": "The sky is wet"}}',
            2,
            "found the answer 'The sky is wet', expected one word",
        ),
        (
            "a.jsonl",
            f'{ANSWER}{{"sentence": "Rain.", "answer": "."}}',
            2,
            "expected one word",
        ),
        ("a.jsonl", f'{ANSWER}{{"sentence": "Rain.", "word": "Wet"}}', 2, PAIR),
        ("a.jsonl", f'{ANSWER}["Rain.", "Wet"]', 2, PAIR),
        ("a.jsonl", f'{ANSWER}{{"sentence": "Rain."', 2, "expected an object in JSON"),
        (
            "a.jsonl",
            f'{ANSWER}{{"sentence": "Rain.", "answer": "Wet", "answer": "Dry"}}',
            2,
            "expected an object in JSON: the key `answer` occurs twice in an object",
        ),
    ],
)
def test_a_fault_of_a_candidate_names_file_and_line(
    read, tmp_path, name, content, line, message
):
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read(name, content)
    assert str(caught.value).endswith(
        f" @ {tmp_path / name}" + (f":{line}" if line else "")
    )


def test_a_table_for_a_template_that_takes_no_demonstration_is_refused_at_its_first_row(
    read, tmp_path
):
    with pytest.raises(DataError, match="cannot take a demonstration") as caught:
        read("c.tsv", "sentence\tword\nRain.\tWet\n", "prompt")
    assert str(caught.value).endswith(f" @ {tmp_path / 'c.tsv'}:2")


def test_a_table_with_a_byte_order_mark_and_windows_line_ends_is_read(read):
    (candidate,) = read("c.tsv", "\ufeffsentence\tword\r\nRain.\tWet\r\n")
    assert candidate.demonstration == Demonstration("Rain.", "Wet")


def test_the_demonstrations_that_come_with_sentbed_are_candidates():
    prompts = read_candidates(
        "pkg:sentbed_studies/demonstrations.tsv", Prompt("prompt-eol"), Silent()
    )
    shown = [prompt.demonstration for prompt in prompts]
    assert len({demonstration.word for demonstration in shown}) == 40
    assert len({demonstration.text for demonstration in shown}) == len(shown) == 40
    for demonstration in shown:
        assert 4 <= len(demonstration.text.split()) <= 14
        assert demonstration.word.istitle()
        assert " " not in demonstration.word
        assert '"' not in demonstration.text + demonstration.word


@pytest.fixture
def published():
    """The authors' file, if it is here."""
    file = Path(os.environ.get("SENTBED_DATA", "")) / "icl" / "demonstrations_300.txt"
    if "SENTBED_DATA" not in os.environ or not file.is_file():
        pytest.skip(
            "needs real data: set SENTBED_DATA to a directory with icl/demonstrations_300.txt"
        )
    return file


def test_each_published_demonstration_makes_the_prompt_of_its_line(published):
    assert (hashlib.sha256(published.read_bytes()).hexdigest(),) == known_data()[
        0
    ].files[0].sha256
    lines = published.read_bytes().decode().removesuffix("\n").split("\n")
    candidates = read_candidates(str(published), Prompt(), Said())
    assert len(lines) == len(candidates) == 300
    for line, candidate in zip(lines, candidates, strict=True):
        before, slot, behind = line.partition("*sent_0*")
        assert slot
        expected = before.replace("_", " ") + "A dog." + behind.replace("_", " ")
        resolved = candidate.resolve(Said())
        assert resolved is not None
        assert resolved.apply("A dog") == expected
        assert candidate.demonstration is not None
        shown = f'"{candidate.demonstration.text}" means in one word:"{candidate.demonstration.word}".This'
        assert shown in expected


@pytest.mark.parametrize(
    "base", ["{text}", "a {text}", "prompt", "prompt-bert", 'a {text} {mask} "']
)
def test_a_template_that_takes_none_has_no_demonstration_in_it(base):
    whole = parse_template("prompt-eol").after(Demonstration("Rain.", "Wet"))
    assert demonstrations_in(parse_template(base), whole) == ()


def test_a_demonstration_is_found_again():
    base = parse_template("prompt-eol")
    shown = Demonstration("Don't _ {text} 我 'so' 😀", "Word")
    assert demonstrations_in(base, base.after(shown)) == (shown,)
    assert demonstrations_in(base, base) == ()
    assert demonstrations_in(base, parse_template("prompt")) == ()
    other = parse_template('In short: "{text}" is "')
    assert demonstrations_in(base, other.after(shown)) == ()


PIECES = st.text(st.sampled_from('":. _aThis{}')) | st.sampled_from(
    ['" means in one word:"', 'This sentence : "', '".', "{text}", "{mask}", "ok"]
)


BASES = [
    parse_template("prompt-eol"),
    Template("", '"'),
    Template('x "', '" "'),
    Template('" "', '" "'),
]


@given(st.text() | PIECES, st.text() | PIECES, st.sampled_from(BASES))
def test_any_demonstration_comes_back_or_none_does(text, word, base):
    whole = base.after(Demonstration(text, word))
    demonstrations = demonstrations_in(base, whole)
    assert not demonstrations or base.after(*demonstrations) == whole
    if base is BASES[0] and '"' not in text + word:
        assert demonstrations == (Demonstration(text, word),)


RAIN, SUN = Demonstration("Rain falls.", "Wet"), Demonstration("The sun shines.", "Dry")


def test_a_row_or_a_line_with_several_demonstrations_is_one_candidate(read):
    prompt = Prompt("prompt-eol", demonstration=(RAIN, SUN))
    row = "Rain falls.\tWet\tThe sun shines.\tDry\n"
    assert read("c.tsv", f"sentence\tword\tsentence\tword\n{row}") == [prompt]
    expected = (
        'This sentence : "Rain falls." means in one word:"Wet".'
        'This sentence : "The sun shines." means in one word:"Dry".'
        'This sentence : "A dog." means in one word:"'
    )
    assert filled(prompt, "A dog.") == expected
    assert read("c.txt", expected.replace("A dog.", "*sent_0*").replace(" ", "_")) == [
        prompt
    ]


def test_the_answers_of_a_language_model_are_candidates(read):
    words = {
        '"Equestrian".': "Equestrian",
        " horseback-riding\n": "Horseback-riding",
        "“Venison.”": "Venison",
        "**motorcycling**": "Motorcycling",
    }
    lines = [json.dumps({"sentence": "A text.", "answer": answer}) for answer in words]
    shown = [candidate.demonstration for candidate in read("a.jsonl", "\n".join(lines))]
    assert shown == [Demonstration("A text.", word) for word in words.values()]


def test_the_published_demonstrations_are_known_data_where_recipes_name_them():
    dataset, _ = known_data()
    (file,) = dataset.files
    assert (
        dataset.how_to_get == "`sentbed data get prompteol-demonstrations` downloads it"
    )
    location = f"data:{dataset.places[0]}/{file.path}"
    assert location in dataset.summary
    recipes = Path(__file__).parents[3] / "recipes" / "papers" / "prompteol"
    named = [
        path.name
        for path in recipes.glob("*.toml")
        if location in path.read_text("utf-8")
    ]
    assert sorted(named) == ["figure-3.toml", "table-4.toml"]
