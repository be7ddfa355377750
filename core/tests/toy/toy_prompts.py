"""A plugin of the toy distribution that offers the prompt `template` of sentbed-poolers."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed_poolers.template_prompt import TemplatePrompt


@hookimpl
def prompts():
    return [TemplatePrompt]
