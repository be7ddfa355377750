"""The prompt `template`: text around a sentence, with text rules and demonstrations.

They follow PromptBERT (Jiang et al., 2022), PromptEOL (Jiang et al., 2023) and their successors.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal

import attrs
from sentbed import DataError, FilePath, SentbedError, locate
from sentbed.errors import suggest
from sentbed.helpers import read_lines
from sentbed.protocols import (
    INSTRUCTION,
    MASK,
    TEXT,
    Prompt,
    ResolvedPrompt,
    Template,
    TextTask,
)


def _published_templates() -> dict[str, str]:
    """Return the templates in `templates.toml`, by name."""
    families = tomllib.loads(
        Path(__file__).with_name("templates.toml").read_text("utf-8")
    )
    templates: dict[str, str] = {}
    for family in families.values():
        templates |= family
    return templates


TEMPLATES: Mapping[str, str] = MappingProxyType(_published_templates())
"""Published templates by name; `templates.toml` also has their sources."""


def _prompt_eol(text: str) -> str:
    """Apply PromptEOL's evaluation rules; see `TemplatePrompt.normalizer`."""
    if text and text[-1] not in ".?\"'":
        text += "."
    text = text.replace('"', "'")
    if text.endswith("?"):
        return text[:-1] + "."
    return text


NORMALIZERS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"none": str, "prompt-eol": _prompt_eol}
)
"""Text rules by name; each changes a sentence before it is put into the template."""


@attrs.frozen
class Demonstration:
    """A sentence and a word that summarises it. The model reads them before the sentence to encode."""

    text: str
    """The sentence, as it appears in the prompt."""
    word: str
    """The word that summarises it."""


@attrs.frozen
class TemplatePrompt(Prompt):
    """Text around each sentence.

    First, the sentence is truncated to `max_length` tokens, and the text rules (`normalizer`) change it. Then it
    is put into the template, and surrounding white space is stripped. The template is never truncated.

    A recipe may leave `use` out: `prompt = { template = "prompt-eol" }`.
    """

    name: ClassVar[str] = "template"

    template: str | None = None
    """Text with `{text}` for the sentence, and after it `{mask}` if the pooler reads a mask token.

    By default, it is that of the pooler. If `{text}` occurs twice (Echo, arXiv 2402.15449), the pooler sees only
    the second sentence and the text after it. Instead of a text, the name of a published template may be given:
    `prompt-eol`, `prompt`, `prompt-bert`, `pretended-cot`, `knowledge`, `prompt-sum`, `prompt-sth`,
    `meta-eol-1` to `meta-eol-8`, `echo`, `echo-document`. A third form is that of PromptEOL's shell scripts, with
    `_` for a space and `*sent_0*` for the sentence.
    """
    file: FilePath | None = None
    """File with one template per line, in any form that `template` may have. It is used instead of `template`."""
    line: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    """Number of the line of `file` that has the template; the first line is 1."""
    normalizer: Literal["none", "prompt-eol"] | None = None
    """Text rules that change the sentence when encoding and evaluating; by default those of the pooler.

    `prompt-eol` appends a full stop unless the sentence ends in one of `. ? " '`, replaces double quotes by
    single quotes, and a question mark at the end by a full stop. In training, the rules are applied only if the
    stage sets `normalize_text = true`.
    """
    demonstration: Demonstration | tuple[Demonstration, ...] | None = None
    """Example before the sentence (in-context learning, PromptEOL section 3.2), or an array of examples.

    Appendix C of PromptEOL has several examples.
    """

    @property
    def cites(self) -> tuple[str, ...]:
        """The paper to cite for demonstrations."""
        if not self.demonstrations:
            return ()
        return ("jiang2023prompteol",)

    def check(self) -> Iterator[str]:
        """Yield the problems of the template, the file and the demonstrations."""
        if self.template is not None and self.file is not None:
            yield "`prompt` has both `template` and `file`; give one"
            return
        if self.file is None and self.line != 1:
            yield "`prompt` has a `line` but no `file`; name the file, or take `line` out"
        if not all(example.text and example.word for example in self.demonstrations):
            yield "the demonstration has an empty `text` or `word`; give both"
        try:
            if self.template is not None or self.file is not None:
                self.resolve()
        except SentbedError as error:
            yield str(error)

    @property
    def demonstrations(self) -> tuple[Demonstration, ...]:
        """The demonstrations, as a tuple."""
        if isinstance(self.demonstration, Demonstration):
            return (self.demonstration,)
        return self.demonstration or ()

    def resolve(self, default: Prompt | None = None) -> ResolvedPrompt | None:
        """Return the parsed template with the demonstrations, and the text rules.

        What the prompt leaves open is that of `default`, if that is a prompt of this class. Return None if
        neither has a template.

        Raises:
            SentbedError: if the template is invalid, or cannot take a demonstration.
            DataError: if `file` does not have the line, or the line is no template.
        """
        text = self.template
        normalizer = self.normalizer
        if isinstance(default, TemplatePrompt):
            if text is None:
                text = default.template
            normalizer = normalizer or default.normalizer
        if self.file is not None:
            text = read_line(self.file, self.line)
        if text is None:
            self._require_nothing_without_template()
            return None

        try:
            template = parse_template(text)
        except SentbedError as error:
            if self.file is None:
                raise
            raise DataError(str(error), self.file, self.line) from error
        if self.demonstrations:
            template = _after_demonstrations(template, self.demonstrations)
        normalizer = normalizer or "none"
        return ResolvedPrompt(template, normalizer, NORMALIZERS[normalizer])

    def _require_nothing_without_template(self) -> None:
        """Raise `SentbedError` if a field is set that has no effect without a template."""
        if self.demonstrations:
            part = "a demonstration"
        elif self.normalizer not in (None, "none"):
            part = "text rules"
        else:
            return
        raise SentbedError(f"`prompt` has {part} but no template; give it a `template`")

    def for_task(self, task: TextTask) -> TemplatePrompt:
        """Return the prompt with `{instruction}` in its template replaced by the instruction of a task.

        Raises:
            SentbedError: if the template has `{instruction}`, but the task has no instruction.
            DataError: if `file` does not have the line.
        """
        prompt = self.self_contained()
        if prompt.template is None or INSTRUCTION not in prompt.template:
            return prompt
        if not task.instruction:
            raise SentbedError(
                f"the template {prompt.template!r} has `{INSTRUCTION}`, and the task "
                f"`{task.name or task.type}` gives none; put a prompt that spells it out into `task_prompts`"
            )
        template = prompt.template.replace(INSTRUCTION, task.instruction)
        return attrs.evolve(prompt, template=template)

    def self_contained(self) -> TemplatePrompt:
        """Return the prompt with the template from `file` as its `template`, for saving."""
        if self.file is None:
            return self
        template = read_line(self.file, self.line)
        return attrs.evolve(
            self,
            template=template,
            file=None,
            line=1,
        )


def _after_demonstrations(
    template: Template, demonstrations: tuple[Demonstration, ...]
) -> Template:
    """Return the template with demonstrations before the sentence, in this order.

    Raises:
        SentbedError: if the template does not end in an open quotation mark, so that a word can follow, or if it
            has a mask or two sentences.
    """
    takes_demonstrations = (
        template.suffix.endswith('"')
        and MASK not in template.suffix
        and template.between is None
    )
    if not takes_demonstrations:
        raise SentbedError(
            f'the template {str(template)!r} cannot take a demonstration: its word goes behind a last `"`; '
            f"use a template that ends in one, such as {TEMPLATES['prompt-eol']!r}"
        )
    prefix = ""
    for demonstration in demonstrations:
        prefix += template.prefix + demonstration.text + template.suffix
        prefix += f'{demonstration.word}".'
    return Template(prefix + template.prefix, template.suffix)


def parse_template(text: str) -> Template:
    """Parse a template in any of the three forms of `TemplatePrompt.template`.

    Raises:
        SentbedError: if there is no published template of this name, or the template is invalid.
    """
    if "*sent_0*" in text:
        text = text.replace("*cls*", "").replace("*sep+*", "")
        text = text.replace("*sent_0*", TEXT).replace("*mask*", MASK)
        text = text.replace("_", " ")
    elif TEXT not in text and " " not in text:
        if text not in TEMPLATES:
            raise SentbedError(
                f"there is no template `{text}`.{suggest(text, list(TEMPLATES))} "
                "A template of your own has `{text}` where the sentence goes"
            )
        text = TEMPLATES[text]
    return Template.of(text)


def read_line(file: str, line: int) -> str:
    """Return a line of a file; the first is line 1. Raises `DataError` if the file or the line does not exist."""
    path = locate(file)
    lines = read_lines(path)
    if line > len(lines):
        raise DataError(
            f"the file has {len(lines)} lines; choose a `line` up to that", path
        )
    return lines[line - 1]
