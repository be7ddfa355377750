"""Base class of prompts, and the template and text rules that a prompt gives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import attrs

from sentbed.errors import SentbedError
from sentbed.protocols.components import Backbone, Component
from sentbed.protocols.evaluation import TextTask

TEXT, MASK = "{text}", "{mask}"
INSTRUCTION = "{instruction}"
"""Place of the task's instruction in a template of `task_prompts`."""

OPEN_QUOTE = '"'
"""Last character of a template that asks for a word."""


@attrs.frozen
class Template:
    """A template, divided into the parts before and after the sentence."""

    prefix: str
    """Text before the sentence."""
    suffix: str
    """Text after the sentence, which may contain `{mask}`."""
    between: str | None = None
    """Text between the two places of the sentence; None if it has one place."""

    @classmethod
    def of(cls, text: str) -> Template:
        """Return the template that a text with `{text}` for the sentence, and perhaps `{mask}`, describes.

        Raises:
            SentbedError: if `{text}` does not occur once or twice; or if `{mask}` occurs twice, or before
                `{text}`.
        """
        if text.count(TEXT) not in (1, 2):
            raise SentbedError(
                f"the template {text!r} has {text.count(TEXT)} places for the sentence; write `{{text}}` "
                "once, or twice for Echo"
            )
        prefix, *between, suffix = text.split(TEXT)
        if MASK in "".join((prefix, *between)) or suffix.count(MASK) > 1:
            raise SentbedError(
                f"the template {text!r} must have `{{mask}}` at most once, and behind `{{text}}`; move it"
            )
        return cls(prefix, suffix, *between)

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


@attrs.frozen
class ResolvedPrompt:
    """The template and the other settings of a prompt that are in effect."""

    template: Template
    normalizer: str = "none"
    """Name of the text rules."""
    rules: Callable[[str], str] = str
    """Text rules: they change each sentence before it is put into the template."""
    auxiliary: Template | None = None
    """Template of the second prompt; see `Tokenizer.auxiliary`. The backbone sets it."""

    def on(self, backbone: Backbone) -> ResolvedPrompt:
        """Return the prompt with the placeholder and the auxiliary template that a backbone needs.

        Raises:
            SentbedError: if the template has the placeholder twice, or the auxiliary template is invalid.
        """
        template = self.template
        if backbone.placeholder is not None:
            template = template.with_placeholder(backbone.placeholder)
        auxiliary = None
        if backbone.auxiliary is not None:
            auxiliary = Template.of(backbone.auxiliary)
            if auxiliary.between is not None or MASK in auxiliary.suffix:
                raise SentbedError(
                    f"the auxiliary template {backbone.auxiliary!r} must have `{{text}}` once, no mask"
                )
        return attrs.evolve(self, template=template, auxiliary=auxiliary)

    @property
    def is_prefix(self) -> bool:
        """Whether the prompt only puts a text before the sentence."""
        template = self.template
        has_rest = template.suffix.strip() or template.between is not None
        return not has_rest and self.normalizer == "none"

    def describe(self) -> dict[str, Any]:
        """Return the entries of the prompt in a score's protocol."""
        facts: dict[str, Any] = {
            "template": str(self.template),
            "normalizer": self.normalizer,
        }
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
        if normalize:
            text = self.rules(text)
        return self.template.fill(text, mask_token)

    def start(self, text: str, normalize: bool = True) -> int:
        """Return the index of the character at which the (last) sentence begins in the result of `apply`."""
        if normalize:
            text = self.rules(text)
        return len(self.template.until(text).lstrip())


class Prompt(Component):
    """How a text becomes the input of the tokenizer: text around it, and rules that change it.

    A sentence is truncated to `max_length` tokens, the rules change it, it is put into the template, and
    surrounding white space is stripped. The template is never truncated.
    """

    __slots__ = ()

    @abstractmethod
    def resolve(self, default: Prompt | None = None) -> ResolvedPrompt | None:
        """Return the template and the text rules of the prompt; None for no text around a sentence.

        `default` is the prompt that the pooler has by default (`Pooler.prompt`), which may give what this
        prompt leaves open.

        Raises:
            SentbedError: if the template is invalid.
            DataError: if a file cannot be read.
        """

    def for_task(self, task: TextTask) -> Prompt:
        """Return the prompt for the texts of a task, such as one with the task's instruction in its template.

        Raises:
            SentbedError: if the prompt needs an instruction, but the task has none.
        """
        return self

    def self_contained(self) -> Prompt:
        """Return the prompt with the content of its files in its fields, for saving."""
        return self
