"""Candidates of a demonstration search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
from sentbed import DataError, SentbedError, locate
from sentbed.protocols import Pooler
from sentbed.tools import Demonstration, Prompt, Template, lines_of, parse_template
from sentbed_common import KnownData, KnownFile, strict_json

PUBLISHED = KnownData(
    name="prompteol-demonstrations",
    summary='PromptEOL\'s 300 demonstrations: search, candidates = "data:icl/demonstrations_300.txt"',
    places=("icl",),
    files=(
        KnownFile(
            "demonstrations_300.txt",
            rows=300,
            sha256=("92c3a40dbd756c14abaf97266543843bb8bd1365ef21d020ccc48a40667d8777",),
            url="https://raw.githubusercontent.com/kongds/scaling_sentemb/"
            "656ddec6641b8ea279f760ccbf711da9155a35e3/icl_examples.txt",
        ),
    ),
    source="https://github.com/kongds/scaling_sentemb",
    licence="not stated; 99 sentences of STS-B, 201 of a dictionary",
)
"""The authors' candidates: `icl_examples.txt` of their code, one template with its demonstration a line.

They are those of the paper's table 5 in its order, but for the last, another definition of its word; the
table ends headlines with a full stop that the file does not have, and mends a word of one sentence.
"""

QUOTES = "\"'“”‘’«»`*"
"""What models put around a word; none of it is part of one."""


def candidate_prompts(file: str, prompts: Sequence[Prompt], pooler: Pooler) -> list[tuple[Prompt, ...]]:
    """Return an encoder's prompts under each candidate of a file: all have its demonstrations.

    Raises:
        SentbedError, DataError: as `read_candidates`, and for whole templates beside several prompts.
    """
    first, *others = prompts
    found = []
    for prompt in read_candidates(file, first, pooler):
        if others and prompt.demonstration is None:
            raise DataError(
                f"the file has whole templates, and the encoder has {len(prompts)} prompts; give sentences "
                "and words (`.tsv`), which go into each of them",
                locate(file),
            )
        more = (attrs.evolve(other, demonstration=prompt.demonstration) for other in others)
        found.append((prompt, *more))
    return found


def as_field(prompts: tuple[Prompt, ...]) -> Prompt | tuple[Prompt, ...]:
    """Return prompts as an encoder's recipe has them."""
    return prompts if len(prompts) > 1 else prompts[0]


def read_candidates(file: str, prompt: Prompt, pooler: Pooler) -> list[Prompt]:
    """Return the candidates of a search: `prompt` with the demonstrations of each line of a file.

    A `.tsv` file has the columns `sentence` and `word`, again for each further demonstration of a candidate.
    A `.jsonl` file has a `sentence` and a language model's `answer` a line, from which `word_of` takes the
    word. Any other file holds one whole template in the shell form a line, with its demonstrations in it.

    Raises:
        SentbedError: if neither `prompt` nor `pooler` has a template.
        DataError: for an invalid line; names file and line.
    """
    path = locate(file)
    bare = attrs.evolve(prompt, demonstration=None)
    resolved = bare.resolve(pooler)
    if resolved is None:
        raise SentbedError(
            "a demonstration stands in a template, and the encoder has none; "
            'give it one, such as `prompt = { template = "prompt-eol" }`'
        )
    lines = lines_of(path)
    parse, first = _shell_line, 1
    if path.suffix == ".jsonl":
        parse = _answer
    elif path.suffix == ".tsv":
        parse, first = partial(_table_row, count=_demonstrations_a_row(lines[:1], path)), 2
    candidates = []
    for number, line in enumerate(lines[first - 1 :], start=first):
        try:
            found = parse(line, resolved.template)
        except SentbedError as error:
            raise DataError(str(error), path, number) from error
        candidates.append(
            attrs.evolve(bare, template=str(found), file=None)
            if isinstance(found, Template)
            else attrs.evolve(bare, demonstration=found[0] if len(found) == 1 else found)
        )
    if not candidates:
        raise DataError("the file has no candidates", path)
    return candidates


def word_of(answer: str) -> str:
    """Return the word of a language model's answer, as in the published demonstrations.

    That is the answer without quotation marks around it and a full stop at its end, with a capital letter.

    Raises:
        SentbedError: if it is not one word.
    """
    word = answer.strip().strip(QUOTES).removesuffix(".").strip(QUOTES)
    if not word or len(word.split()) != 1:
        raise SentbedError(
            f"found the answer {answer!r:.80}, expected one word; ask for one, or put it in its place"
        )
    return word[0].upper() + word[1:]


def _demonstrations_a_row(header: Sequence[str], path: Path) -> int:
    columns = header[0].split("\t") if header else []
    count = len(columns) // 2
    if not count or columns != ["sentence", "word"] * count:
        raise DataError(
            "expected the header `sentence<TAB>word`, both again for each further demonstration of a row",
            path,
            1,
        )
    return count


def _answer(line: str, base: Template) -> tuple[Demonstration, ...]:
    try:
        found = strict_json(line)
    except (ValueError, RecursionError) as error:
        raise SentbedError(f"found {line!r:.80}, expected an object in JSON: {error}") from error
    found = found if isinstance(found, dict) else {}
    sentence, answer = found.get("sentence"), found.get("answer")
    if not (isinstance(sentence, str) and sentence and isinstance(answer, str)):
        raise SentbedError(f"found {line!r:.80}, expected an object with the texts `sentence` and `answer`")
    shown = (Demonstration(sentence, word_of(answer)),)
    base.after(*shown)
    return shown


def _table_row(line: str, base: Template, *, count: int) -> tuple[Demonstration, ...]:
    fields = line.split("\t")
    if len(fields) != 2 * count or not all(fields):
        what = (
            "a sentence, a tab and a word" if count == 1 else f"{count} times a sentence and a word, by tabs"
        )
        raise SentbedError(f"found {line!r}, expected {what}")
    found = tuple(map(Demonstration, fields[::2], fields[1::2]))
    base.after(*found)
    return found


def _shell_line(line: str, base: Template) -> tuple[Demonstration, ...] | Template:
    whole = parse_template(line)
    return demonstrations_in(base, whole) or whole


def demonstrations_in(base: Template, whole: Template) -> tuple[Demonstration, ...]:
    """Return the demonstrations with which `base.after` gives `whole`; empty if there are none."""
    if not base.takes_demonstrations:
        return ()
    shown = whole.prefix.removeprefix(base.prefix).removesuffix(f'".{base.prefix}')
    # A sentence may hold what stands between two demonstrations: then it is one.
    for parts in (shown.split(f'".{base.prefix}'), [shown]):
        split = [part.rpartition(base.suffix) for part in parts]
        found = tuple(Demonstration(text, word) for text, _, word in split)
        if base.after(*found) == whole:
            return found
    return ()
