"""Candidates of a demonstration search: reads them from a file, as prompts with demonstrations."""

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
"""Candidates of PromptEOL's authors: the file `icl_examples.txt` of their code.

Each line is a template with a demonstration. They are the candidates of the paper's table 5 in the same order,
with three differences: the last word that is defined has another definition, headlines do not end with a full
stop, and one sentence has another word.
"""

QUOTES = "\"'“”‘’«»`*"
"""Characters that language models put around a word."""


def candidate_prompts(
    file: str,
    prompts: Sequence[Prompt],
    pooler: Pooler,
) -> list[tuple[Prompt, ...]]:
    """Return the prompts of an encoder for each candidate in a file.

    Every prompt of the encoder gets the demonstrations of the candidate.

    Raises:
        SentbedError: if neither the first prompt nor `pooler` has a template.
        DataError: if a line of the file is invalid, or if the file has whole templates although the encoder
            has several prompts.
    """
    first, *others = prompts
    candidates = []
    for prompt in read_candidates(file, first, pooler):
        demonstration = prompt.demonstration
        if others and demonstration is None:
            raise DataError(
                f"the file has whole templates, and the encoder has {len(prompts)} prompts; give sentences "
                "and words (`.tsv`), which go into each of them",
                locate(file),
            )
        of_candidate = [prompt]
        for other in others:
            of_candidate.append(attrs.evolve(other, demonstration=demonstration))
        candidates.append(tuple(of_candidate))
    return candidates


def as_field(prompts: tuple[Prompt, ...]) -> Prompt | tuple[Prompt, ...]:
    """Return prompts as an encoder's field `prompt` takes them: a single prompt alone, several as a tuple."""
    return prompts if len(prompts) > 1 else prompts[0]


def read_candidates(
    file: str,
    prompt: Prompt,
    pooler: Pooler,
) -> list[Prompt]:
    """Return the candidates of a search: for each line of a file, `prompt` with the line's demonstrations.

    A `.tsv` file has the columns `sentence` and `word`; they are repeated if a candidate has several
    demonstrations. Each line of a `.jsonl` file has a `sentence` and a language model's `answer`, from which
    `word_of` takes the word. Each line of any other file is a whole template, which contains its demonstrations;
    the template is quoted as in shell scripts.

    Raises:
        SentbedError: if neither `prompt` nor `pooler` has a template.
        DataError: if a line is invalid; the error names file and line.
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
    first_line = 1
    pairs_per_row = 0
    if path.suffix == ".tsv":
        first_line = 2
        pairs_per_row = _pairs_per_row(lines[:1], path)

    candidates = []
    for number, line in enumerate(lines[first_line - 1 :], start=first_line):
        try:
            if path.suffix == ".jsonl":
                demonstrations = _demonstration_of_answer(line)
            elif path.suffix == ".tsv":
                demonstrations = _demonstrations_of_row(line, pairs_per_row)
            else:
                template = parse_template(line)
                demonstrations = demonstrations_in(base, template)
                if not demonstrations:
                    # The line is another template than the encoder's: it is a candidate as a whole.
                    whole = attrs.evolve(bare, template=str(template), file=None)
                    candidates.append(whole)
                    continue
            base.after(*demonstrations)  # raises if the template cannot take them
        except SentbedError as error:
            raise DataError(str(error), path, number) from error
        field = demonstrations if len(demonstrations) > 1 else demonstrations[0]
        candidates.append(attrs.evolve(bare, demonstration=field))

    if not candidates:
        raise DataError("the file has no candidates", path)
    return candidates


def word_of(answer: str) -> str:
    """Return the word of a language model's answer, in the form of the published demonstrations.

    Quotation marks around the answer and a full stop at its end are removed; the word is capitalised.

    Raises:
        SentbedError: if the answer is not a single word.
    """
    word = answer.strip().strip(QUOTES).removesuffix(".").strip(QUOTES)
    if len(word.split()) != 1:
        raise SentbedError(
            f"found the answer {answer!r:.80}, expected one word; ask for one, or put it in its place"
        )
    return word[0].upper() + word[1:]


def _pairs_per_row(header: Sequence[str], path: Path) -> int:
    """Return the number of demonstrations per row of a `.tsv` file whose first line is `header`.

    Raises:
        DataError: if the header is not `sentence` and `word`, once or several times.
    """
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
    """Return the demonstration of a line of a `.jsonl` file. Raises `SentbedError` if the line is invalid."""
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
    """Return the `count` demonstrations of a row of a `.tsv` file. Raises `SentbedError` if it is invalid."""
    fields = line.split("\t")
    if len(fields) != 2 * count or not all(fields):
        expected = "a sentence, a tab and a word"
        if count > 1:
            expected = f"{count} times a sentence and a word, by tabs"
        raise SentbedError(f"found {line!r}, expected {expected}")
    return tuple(map(Demonstration, fields[::2], fields[1::2]))


def demonstrations_in(base: Template, whole: Template) -> tuple[Demonstration, ...]:
    """Return the demonstrations for which `base.after` returns `whole`; empty if `whole` is another template."""
    if not base.takes_demonstrations:
        return ()

    # `base.after` puts each demonstration before the sentence as PREFIX TEXT SUFFIX WORD". with a full stop,
    # so this separator follows each demonstration:
    separator = f'".{base.prefix}'
    text_of_all = whole.prefix.removeprefix(base.prefix).removesuffix(separator)
    # If splitting does not give `whole` back, the separator may be part of a single demonstration's text.
    for texts in (text_of_all.split(separator), [text_of_all]):
        demonstrations = []
        for text_and_word in texts:
            text, _, word = text_and_word.rpartition(base.suffix)
            demonstrations.append(Demonstration(text, word))
        if base.after(*demonstrations) == whole:
            return tuple(demonstrations)
    return ()
