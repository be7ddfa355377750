"""Prompts: text that is put around a sentence before tokenisation.

Text rules first change the sentence itself, for example its punctuation. They and demonstrations follow
PromptBERT (Jiang et al., 2022), PromptEOL (Jiang et al., 2023) and their successors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import attrs
import tomli
from attrs.validators import min_len, optional

from sentbed._locations import FilePath, locate
from sentbed.errors import DataError, ModelError, SentbedError, suggest
from sentbed.protocols import (
    Backbone,
    Pooler,
    TextTask,
    TokenIds,
    Tokenizer,
)

TEXT, MASK = "{text}", "{mask}"
INSTRUCTION = "{instruction}"
"""Place of the task's instruction in a template of `task_prompts`."""


def _published_templates() -> dict[str, str]:
    """Return the templates in `templates.toml`, by name."""
    families = tomli.loads(
        Path(__file__).with_name("templates.toml").read_text("utf-8")
    )
    templates: dict[str, str] = {}
    for family in families.values():
        templates |= family
    return templates


TEMPLATES: Mapping[str, str] = MappingProxyType(_published_templates())
"""Published templates by name; `templates.toml` also has their sources."""

OPEN_QUOTE = '"'
"""Last character of a template that can have demonstrations. In a demonstration, the word follows it."""

NO_LIMIT = 2**20
"""Maximum length, in tokens, for tokenising a whole prompt: it is not truncated, only the sentence in it was."""


def _prompt_eol(text: str) -> str:
    """Apply PromptEOL's evaluation rules; see `Prompt.normalizer`."""
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

    cites: ClassVar[tuple[str, ...]] = ("jiang2023prompteol",)

    text: str
    """The sentence, as it appears in the prompt."""
    word: str
    """The word that summarises it."""


@attrs.frozen
class Prompt:
    """`prompt`: text around each sentence.

    First, the sentence is truncated to `max_length` tokens, and the text rules (`normalizer`) change it. Then it
    is put into the template, and surrounding white space is stripped. The template is never truncated.
    """

    template: str | None = None
    """Text with `{text}` for the sentence, and after it `{mask}` if the pooler reads a mask token.

    By default, it is that of the pooler. If `{text}` occurs twice (Echo, arXiv 2402.15449), the pooler sees only
    the second sentence and the text after it. Instead of a text, the name of a published template may be given:
    `prompt-eol`, `prompt`, `prompt-bert`, `pretended-cot`, `knowledge`, `prompt-sum`, `prompt-sth`,
    `contrastive-auxiliary`, `meta-eol-1` to `meta-eol-8`, `echo`, `echo-document`. A third form is that of
    PromptEOL's shell scripts, with `_` for a space and `*sent_0*` for the sentence.
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
    layers: tuple[int, ...] | None = attrs.field(
        default=None, validator=optional(min_len(1))
    )
    """Layers from which token states are taken with this prompt; by default the backbone's `layers`."""

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

    def resolve(
        self, pooler: Pooler | None = None, backbone: Backbone | None = None
    ) -> ResolvedPrompt | None:
        """Return the parsed template and the other settings of the prompt, with defaults from the pooler.

        The backbone's placeholder and auxiliary template are included. Return None if neither the prompt nor the
        pooler has a template.

        Raises:
            SentbedError: if the template is invalid.
            DataError: if `file` does not have the line, or the line is no template.
        """
        text = self.template
        normalizer: str | None = self.normalizer
        if self.file is not None:
            text = read_line(self.file, self.line)
        elif text is None and pooler is not None:
            text = pooler.template
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
            template = template.after(*self.demonstrations)

        auxiliary = None
        if backbone is not None and backbone.placeholder is not None:
            template = template.with_placeholder(backbone.placeholder)
        if backbone is not None and backbone.auxiliary is not None:
            auxiliary = parse_template(backbone.auxiliary)
            if auxiliary.between is not None or MASK in auxiliary.suffix:
                raise SentbedError(
                    f"the auxiliary template {backbone.auxiliary!r} must have `{{text}}` once, no mask"
                )

        if normalizer is None and pooler is not None:
            normalizer = pooler.normalizer
        return ResolvedPrompt(template, normalizer or "none", self.layers, auxiliary)

    def _require_nothing_without_template(self) -> None:
        """Raise `SentbedError` if a field is set that has no effect without a template."""
        if self.demonstrations:
            part = "a demonstration"
        elif self.layers:
            part = "`layers`"
        elif self.normalizer not in (None, "none"):
            part = "text rules"
        else:
            return
        raise SentbedError(f"`prompt` has {part} but no template; give it a `template`")

    def instructed(self, task: TextTask) -> Prompt:
        """Return the prompt with `{instruction}` in its template replaced by the instruction of a task.

        Raises:
            SentbedError: if the template has `{instruction}`, but the task has no instruction.
            DataError: if `file` does not have the line.
        """
        prompt = self.without_file()
        if prompt.template is None or INSTRUCTION not in prompt.template:
            return prompt
        if not task.instruction:
            raise SentbedError(
                f"the template {prompt.template!r} has `{INSTRUCTION}`, and the task "
                f"`{task.name or task.type}` gives none; put a prompt that spells it out into `task_prompts`"
            )
        template = prompt.template.replace(INSTRUCTION, task.instruction)
        return attrs.evolve(prompt, template=template)

    def without_file(self) -> Prompt:
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


@attrs.frozen
class Template:
    """A template, divided into the parts before and after the sentence."""

    prefix: str
    """Text before the sentence."""
    suffix: str
    """Text after the sentence, which may contain `{mask}`."""
    between: str | None = None
    """Text between the two places of the sentence; None if it has one place."""

    def __str__(self) -> str:
        return f"{self.until(TEXT)}{TEXT}{self.suffix}"

    def fill(self, text: str, mask_token: str = MASK) -> str:
        """Return the template with a text in it, stripped of surrounding white space."""
        suffix = self.suffix.replace(MASK, mask_token)
        return (self.until(text) + text + suffix).strip()

    def until(self, text: str) -> str:
        """Return the part of the filled template that precedes the last place of the text."""
        if self.between is None:
            return self.prefix
        return self.prefix + text + self.between

    def after(self, *demonstrations: Demonstration) -> Template:
        """Return the template with demonstrations before the sentence, in this order.

        Raises:
            SentbedError: if the template cannot have demonstrations; see `takes_demonstrations`.
        """
        if not self.takes_demonstrations:
            raise SentbedError(
                f'the template {str(self)!r} cannot take a demonstration: its word goes behind a last `"`; '
                f"use a template that ends in one, such as {TEMPLATES['prompt-eol']!r}"
            )
        prefix = ""
        for demonstration in demonstrations:
            prefix += self.prefix + demonstration.text + self.suffix
            prefix += f'{demonstration.word}".'
        return Template(prefix + self.prefix, self.suffix)

    def with_placeholder(self, token: str) -> Template:
        """Return the template with a token before the sentence, or before the quotation mark that opens it.

        A template that has the token already is returned unchanged.

        Raises:
            SentbedError: if the template has the token more than once.
        """
        count = str(self).count(token)
        if count > 1:
            raise SentbedError(
                f"the template {str(self)!r} has `{token}` {count} times; write it once"
            )
        if count:
            return self
        before = self.prefix.removesuffix(OPEN_QUOTE)
        quote = self.prefix[len(before) :]
        return attrs.evolve(self, prefix=f"{before}{token} {quote}")

    @property
    def takes_demonstrations(self) -> bool:
        """Whether the template can have demonstrations.

        It must end in an open quotation mark, so that a word can follow, and have neither a mask nor two
        sentences.
        """
        return (
            self.suffix.endswith(OPEN_QUOTE)
            and MASK not in self.suffix
            and self.between is None
        )


@attrs.frozen
class ResolvedPrompt:
    """A prompt with the pooler's defaults and the backbone's additions: the settings that are in effect."""

    template: Template
    normalizer: str
    """Name of the text rules."""
    layers: tuple[int, ...] | None = None
    """Layers from which token states are taken; None for those of the backbone."""
    auxiliary: Template | None = None
    """Template of the second prompt; see `Tokenizer.auxiliary`."""

    def describe(self) -> dict[str, Any]:
        """Return the entries of the prompt in a score's protocol."""
        facts: dict[str, Any] = {
            "template": str(self.template),
            "normalizer": self.normalizer,
        }
        if self.layers:
            facts["layers"] = list(self.layers)
        if self.auxiliary is not None:
            facts["auxiliary"] = str(self.auxiliary)
        return facts

    def apply(
        self,
        text: str,
        normalize: bool = True,
        mask_token: str = MASK,
    ) -> str:
        """Return the prompt for a sentence; with `normalize`, text rules are applied to the sentence."""
        return self.template.fill(self._normalized(text, normalize), mask_token)

    def start(self, text: str, normalize: bool = True) -> int:
        """Return the index of the character at which the (last) sentence begins in the result of `apply`."""
        return len(self.template.until(self._normalized(text, normalize)).lstrip())

    def _normalized(self, text: str, normalize: bool) -> str:
        """Return a sentence with text rules applied, if `normalize` is true."""
        if not normalize:
            return text
        return NORMALIZERS[self.normalizer](text)


@attrs.frozen(eq=False)
class PromptTokenizer(Tokenizer):
    """Tokenizer that puts each text into a prompt, then tokenises the prompt."""

    original: Tokenizer
    """Tokenizer of the backbone."""
    prompt: ResolvedPrompt
    longest: int
    """Largest input length of the backbone, in tokens."""
    normalize: bool = True
    """Whether the prompt's text rules are applied."""
    counts_prompt: bool = False
    """Whether `max_length` includes the tokens of the prompt, as in sentence-transformers."""

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return self.original.pad_id

    @property
    def mask_token(self) -> str | None:
        """The mask token as a string, or None if the vocabulary has no mask token."""
        return self.original.mask_token

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise the prompts of these texts.

        `max_length` applies to the sentence alone; with `counts_prompt`, to prompt, sentence and special tokens
        together.

        Raises:
            ModelError: if a prompt has more tokens than the backbone has positions (the template is not
                truncated), or if the template has a mask but the vocabulary has no mask token.
        """
        mask = self.mask_token
        if mask is None and MASK in self.prompt.template.suffix:
            raise ModelError(
                f"the template {str(self.prompt.template)!r} has a `{MASK}`, and the tokenizer has no mask "
                "token; take it out, or choose a model with a mask token"
            )

        longest = self.longest
        if self.counts_prompt:
            longest = min(longest, max_length)
            if self._is_text_before:
                prompts = [self.prompt.apply(text, normalize=False) for text in texts]
                return self.original.encode(prompts, longest)

        truncated = self.original.truncate(texts, max_length)
        tokens = self._encode_prompts(truncated, mask or MASK)
        # With `counts_prompt`, texts are shortened until their prompts have at most `longest` tokens. `limits`
        # has the number of tokens to which the text of each row has been cut.
        limits: dict[int, int] = {}
        while too_long := (tokens.lengths > longest).nonzero()[0].tolist():
            texts_too_long = [truncated[row] for row in too_long]
            # At most a text's own length, since a limit above it cuts nothing.
            text_lengths = self.original.encode(texts_too_long, NO_LIMIT).lengths
            for row, text_length in zip(too_long, text_lengths.tolist(), strict=True):
                excess = int(tokens.lengths[row]) - longest
                limits[row] = min(limits.get(row, max_length), text_length) - excess
                if limits[row] < 1 and longest < self.longest:
                    raise ModelError(
                        f"a prompt without its sentence has {longest} tokens or more, and `max_length` "
                        f"({longest}) counts both; raise `max_length` or shorten the template"
                    )
                if not self.counts_prompt or limits[row] < 1:
                    raise ModelError(
                        f"a prompt has {tokens.lengths[row]} tokens, the backbone has positions for "
                        f"{self.longest}; lower `max_length` (it is {max_length}, for the sentence without "
                        "its template) or shorten the template"
                    )
                (truncated[row],) = self.original.truncate(
                    [truncated[row]], limits[row]
                )
            tokens = self._encode_prompts(truncated, mask or MASK)
        return tokens

    @property
    def _is_text_before(self) -> bool:
        """Whether the prompt only puts a text before the sentence, so that both can be truncated as one text."""
        template = self.prompt.template
        return (
            not template.suffix.strip()
            and template.between is None
            and self.prompt.layers is None
            and self.prompt.normalizer == "none"
        )

    def _encode_prompts(self, texts: Sequence[str], mask: str) -> TokenIds:
        """Tokenise the prompts of texts that have already been truncated."""
        prompts = [self.prompt.apply(text, self.normalize, mask) for text in texts]
        has_sentence_twice = self.prompt.template.between is not None
        if not has_sentence_twice and self.prompt.layers is None:
            return self.original.encode(prompts, NO_LIMIT)
        starts = None
        if has_sentence_twice:
            starts = [self.prompt.start(text, self.normalize) for text in texts]
        return self.original.encode_marked(prompts, starts, self.prompt.layers)

    def shareable(self, ids: Any) -> int:
        """Return how many leading ids of a prompt may be in a shared prefix."""
        return self.original.shareable(ids)

    def auxiliary(self, texts: Sequence[str], max_length: int) -> TokenIds | None:
        """Tokenise the texts in the auxiliary prompt, with the same text rules; return None if there is none."""
        if self.prompt.auxiliary is None:
            return None
        prompt = attrs.evolve(self.prompt, template=self.prompt.auxiliary, layers=None)
        return attrs.evolve(self, prompt=prompt).encode(texts, max_length)

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        """Return the beginning of each text that has at most `max_length` tokens, not counting the template."""
        return self.original.truncate(texts, max_length)


def parse_template(text: str) -> Template:
    """Parse a template in any of the three forms of `Prompt.template`.

    Raises:
        SentbedError: if there is no published template of this name; if `{text}` does not occur once or twice;
            or if `{mask}` occurs twice, or before `{text}`.
    """
    written = text
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
    if text.count(TEXT) not in (1, 2):
        raise SentbedError(
            f"the template {written!r} has {text.count(TEXT)} places for the sentence; write `{{text}}` "
            "once, or twice for Echo"
        )
    prefix, *between, suffix = text.split(TEXT)
    if MASK in "".join((prefix, *between)) or suffix.count(MASK) > 1:
        raise SentbedError(
            f"the template {written!r} must have `{{mask}}` at most once, and behind `{{text}}`; move it"
        )
    return Template(prefix, suffix, *between)


def read_line(file: str, line: int) -> str:
    """Return a line of a file; the first is line 1. Raises `DataError` if the file or the line does not exist."""
    path = locate(file)
    lines = lines_of(path)
    if line > len(lines):
        raise DataError(
            f"the file has {len(lines)} lines; choose a `line` up to that", path
        )
    return lines[line - 1]


def lines_of(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file. Raises `DataError` if it cannot be read."""
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(
            f"cannot read the file: {error.strerror}; check the path", path
        ) from error
    except UnicodeDecodeError as error:
        raise DataError("the file is not UTF-8; convert it", path) from error
    if not content:
        return []
    # `splitlines` would also split at characters such as U+0085, which a template may have.
    return [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")]
