"""The contract of a prompt: what it puts around a text, and what its rules do to the text."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest
from sentbed.protocols import Prompt, ResolvedPrompt, TextTask

from sentbed_testing.component_contract import ComponentContract

TEXTS = ("A dog runs.", "Is it late?", "", " ", '"quoted" {text} {mask}', "我们")


class PromptContract(ComponentContract):
    """Tests of a prompt, which must not need that of a pooler."""

    component: ClassVar[Prompt]

    @pytest.fixture
    def resolved(self, component: Prompt) -> ResolvedPrompt:
        """The template and the rules of the prompt."""
        resolved = component.resolve()
        assert isinstance(resolved, ResolvedPrompt)
        return resolved

    @pytest.mark.parametrize("text", TEXTS)
    def test_rules(self, resolved: ResolvedPrompt, text: str) -> None:
        """The rules are a function of the text alone, and have a name unless they change nothing."""
        changed = resolved.rules(text)

        assert isinstance(changed, str)
        assert resolved.rules(text) == changed
        if resolved.normalizer == "none":
            assert changed == text

    @pytest.mark.parametrize("text", TEXTS)
    def test_text_begins_where_it_says(
        self,
        resolved: ResolvedPrompt,
        text: str,
    ) -> None:
        """The text stands in the prompt, and begins where `start` says."""
        start = resolved.start(text, normalize=False)
        prompt = resolved.apply(text, normalize=False)

        assert prompt[start:].startswith(text.rstrip())

    def test_for_task(self, component: Prompt) -> None:
        """The prompt for the texts of a task is a prompt."""
        task = TextTask("SciFact", "Retrieval", "query", "Find papers")

        assert isinstance(component.for_task(task), Prompt)

    def test_self_contained(self, component: Prompt, resolved: ResolvedPrompt) -> None:
        """The prompt that is saved has the same template and rules."""
        saved = component.self_contained().resolve()
        assert isinstance(saved, ResolvedPrompt)
        assert attrs.evolve(saved, rules=str) == attrs.evolve(resolved, rules=str)
        for text in TEXTS:
            assert saved.rules(text) == resolved.rules(text)
