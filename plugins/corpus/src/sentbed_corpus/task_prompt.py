"""Choice of one of an encoder's `task_prompts` for the texts of a command."""

from __future__ import annotations

from sentbed import Encoder
from sentbed.errors import RunError, suggest
from sentbed.protocols import EncoderRecipe, TextTask


def require_prompt(recipe: EncoderRecipe, key: str) -> None:
    """Raise `RunError` if an encoder has no task prompt `key`; an empty key stands for its usual prompt."""
    keys = list(recipe.task_prompts or {})
    if not key or key.lower() in map(str.lower, keys):
        return
    if not keys:
        raise RunError(
            f"found the prompt `{key}`, but the encoder has no `task_prompts`; leave it out"
        )
    raise RunError(f"the encoder has no prompt `{key}`.{suggest(key, keys)}")


def under_prompt(
    encoder: Encoder,
    key: str,
    instruction: str = "",
) -> Encoder:
    """Return the encoder with its task prompt `key` in place of its usual prompt; unchanged for an empty key.

    Raises:
        RunError: if the encoder has no such task prompt, or gives a vector of each token.
        SentbedError: if the prompt needs an instruction and there is none.
        ModelError: if the prompt leaves no tokens for a text.
    """
    if encoder.output == "tokens":
        raise RunError(
            f"the pooler `{encoder.recipe.pooler.name}` gives a vector of each token, and here one vector of "
            "each text is needed; use an encoder with another pooler, such as `mean`"
        )
    require_prompt(encoder.recipe, key)
    if not key:
        return encoder
    return encoder.for_task(TextTask(key, instruction=instruction))
