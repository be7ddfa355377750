"""Candidates of a demonstration search."""

from __future__ import annotations

from collections.abc import Sequence
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
            sha256=(
                "92c3a40dbd756c14abaf97266543843bb8bd1365ef21d020ccc48a40667d8777",
            ),
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


def candidate_prompts(
    file: str, prompts: Sequence[Prompt], pooler: Pooler
) -> list[tuple[Prompt, ...]]:
    """Return an encoder's prompts under each candidate of a file: all have its demonstrations.

    Raises:
        SentbedError, DataError: as `read_candidates`, and for whole templates beside several prompts.
    """
    first, *others = prompts
    candidates = []
    for prompt in read_candidates(file, first, pooler):
        if others and prompt.demonstration is None:
            raise DataError(
                f"the file has whole templates, and the encoder has {len(prompts)} prompts; give sentences "
                "and words (`.tsv`), which go into each of them",
                locate(file),
            )
        more = [
            attrs.evolve(other, demonstration=prompt.demonstration) for other in others
        ]
        candidates.append((prompt, *more))
    return candidates


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
    base = resolved.template
    lines = lines_of(path)
    first, pairs = 1, 0
    if path.suffix == ".tsv":
        first, pairs = 2, _demonstrations_a_row(lines[:1], path)
    candidates = []
    for number, line in enumerate(lines[first - 1 :], start=first):
        try:
            if path.suffix == ".jsonl":
                shown = _demonstration_of_answer(line)
            elif path.suffix == ".tsv":
                shown = _demonstrations_of_row(line, pairs)
            else:
                whole = parse_template(line)
                shown = demonstrations_in(base, whole)
                if not shown:
                    candidates.append(
                        attrs.evolve(bare, template=str(whole), file=None)
                    )
                    continue
            # Refuses what the template cannot take.
            base.after(*shown)
        except SentbedError as error:
            raise DataError(str(error), path, number) from error
        demonstration = shown if len(shown) > 1 else shown[0]
        candidates.append(attrs.evolve(bare, demonstration=demonstration))
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
    if len(word.split()) != 1:
        raise SentbedError(
            f"found the answer {answer!r:.80}, expected one word; ask for one, or put it in its place"
        )
    return word[0].upper() + word[1:]


def _demonstrations_a_row(header: Sequence[str], path: Path) -> int:
    columns = "".join(header).split("\t")
    count = len(columns) // 2
    if not count or columns != ["sentence", "word"] * count:
        raise DataError(
            "expected the header `sentence<TAB>word`, both again for each further demonstration of a row",
            path,
            1,
        )
    return count


def _demonstration_of_answer(line: str) -> tuple[Demonstration, ...]:
    try:
        table = strict_json(line)
    except (ValueError, RecursionError) as error:
        raise SentbedError(
            f"found {line!r:.80}, expected an object in JSON: {error}"
        ) from error
    if isinstance(table, dict):
        sentence, answer = table.get("sentence"), table.get("answer")
        if isinstance(sentence, str) and sentence and isinstance(answer, str):
            return (Demonstration(sentence, word_of(answer)),)
    raise SentbedError(
        f"found {line!r:.80}, expected an object with the texts `sentence` and `answer`"
    )


def _demonstrations_of_row(line: str, count: int) -> tuple[Demonstration, ...]:
    fields = line.split("\t")
    if len(fields) != 2 * count or not all(fields):
        expected = "a sentence, a tab and a word"
        if count > 1:
            expected = f"{count} times a sentence and a word, by tabs"
        raise SentbedError(f"found {line!r}, expected {expected}")
    return tuple(map(Demonstration, fields[::2], fields[1::2]))


def demonstrations_in(base: Template, whole: Template) -> tuple[Demonstration, ...]:
    """Return the demonstrations with which `base.after` gives `whole`; empty if there are none."""
    if not base.takes_demonstrations:
        return ()
    between = f'".{base.prefix}'
    shown = whole.prefix.removeprefix(base.prefix).removesuffix(between)
    # A sentence may hold what stands between two demonstrations: then it is one.
    for parts in (shown.split(between), [shown]):
        demonstrations = []
        for part in parts:
            text, _, word = part.rpartition(base.suffix)
            demonstrations.append(Demonstration(text, word))
        if base.after(*demonstrations) == whole:
            return tuple(demonstrations)
    return ()
