"""Candidates of a demonstration search."""

from __future__ import annotations

import attrs
from sentbed import DataError, SentbedError, locate
from sentbed.protocols import Pooler
from sentbed.tools import Demonstration, Prompt, Template, lines_of, parse_template


def read_candidates(file: str, prompt: Prompt, pooler: Pooler) -> list[Prompt]:
    """Return the candidates of a demonstration search: `prompt` with each demonstration in the file.

    A `.tsv` file has the columns `sentence` and `word`; any other file holds one whole template in the shell
    form a line, with its demonstration in it.

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
    rows = list(enumerate(lines_of(path), start=1))
    table = path.suffix == ".tsv"
    if table:
        if not rows or rows[0][1].split("\t") != ["sentence", "word"]:
            raise DataError("expected the header `sentence<TAB>word`", path, 1)
        rows = rows[1:]
    if not rows:
        raise DataError("the file has no candidates", path)
    candidates = []
    for number, line in rows:
        try:
            demonstration = (_table_row if table else _shell_line)(line, resolved.template)
        except SentbedError as error:
            raise DataError(str(error), path, number) from error
        candidates.append(
            attrs.evolve(bare, template=str(demonstration), file=None)
            if isinstance(demonstration, Template)
            else attrs.evolve(bare, demonstration=demonstration)
        )
    return candidates


def _table_row(line: str, base: Template) -> Demonstration:
    text, tab, word = line.partition("\t")
    if not tab or not text or not word or "\t" in word:
        raise SentbedError(f"found {line!r}, expected a sentence, a tab and a word")
    found = Demonstration(text, word)
    base.after(found)
    return found


def _shell_line(line: str, base: Template) -> Demonstration | Template:
    whole = parse_template(line)
    return demonstration_in(base, whole) or whole


def demonstration_in(base: Template, whole: Template) -> Demonstration | None:
    """Return the demonstration with which `base.after` gives `whole`, or None if there is none."""
    if not base.takes_demonstrations:
        return None
    text, _, word = whole.prefix.removeprefix(base.prefix).rpartition(base.suffix)
    found = Demonstration(text, word.removesuffix(base.prefix).removesuffix('".'))
    return found if base.after(found) == whole else None
