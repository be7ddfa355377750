"""Checks whether the components of an encoder can be combined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sentbed._document.structuring import parts_in
from sentbed._toml import KeyPath
from sentbed.errors import SentbedError, listed
from sentbed.protocols import (
    INSTRUCTION,
    MASK,
    POOLER_NEEDS,
    RUNTIME_OFFERS,
    Backbone,
    Output,
    Pooler,
    Prompt,
    Runtime,
    Template,
    Transform,
    inner_parts,
)

if TYPE_CHECKING:
    from sentbed.protocols import EncoderRecipe

VECTORS: frozenset[Output] = frozenset({"vector", "sparse"})
"""Outputs of poolers that are one vector of each text."""

TEMPLATE = "template"
"""Need of a pooler that the recipe's prompt must meet, not the backbone."""

NEEDS_OF_ONE_TEMPLATE = frozenset({"template-alone", "template-alone-from-0"})
"""Needs of a pooler that subtracts the state of the template without a sentence."""


def misfits(encoder: EncoderRecipe) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path of a key, below `[encoder]`, and a message for each reason why parts cannot be combined."""
    unmet = list(_unmet_needs(encoder))
    if unmet:
        # Of a pooler and the one within it, the inner one has the need. Other problems can wait, since the pooler
        # or the backbone must be changed first.
        yield unmet[-1]
        return

    yield from _pooler_misfits(encoder)
    yield from _similarity_misfits(encoder)
    yield from misfits_within(encoder.backbone, Backbone, encoder, "backbone")
    yield from misfits_within(encoder.pooler, Pooler, encoder, "pooler")
    yield from misfits_within(encoder.head, Transform, encoder, "head")
    for message in beyond_positions(encoder, encoder.max_length):
        yield ("max_length",), message
    for key, message in _misfits_of_prompts(encoder):
        yield (key,), message
    if encoder.task_prompts is not None:
        for message in _task_prompt_misfits(encoder, encoder.task_prompts):
            yield ("task_prompts",), message


def _unmet_needs(encoder: EncoderRecipe) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path and a message for each pooler, outer ones first, whose needs the backbone does not meet."""
    backbone = encoder.backbone
    offers = backbone.offers
    if offers is None:
        return
    for path, pooler in parts_in(encoder.pooler, ("pooler",)):
        if not isinstance(pooler, Pooler):
            continue
        unmet = pooler.needs - offers - {TEMPLATE}
        if unmet:
            yield (
                path,
                f"the pooler `{pooler.name}` needs {_reasons(unmet)}, and the backbone `{backbone.name}` has "
                "none; choose another of the two",
            )


def misfits_within(
    part: Any,
    base: type[Any],
    place: Any,
    *path: str | int,
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path and the message of each misfit of the components of a class in a part of a recipe.

    `place` is where the components stand; see `Component.misfits`. `path` is the path of `part`.
    """
    for path_of_component, component in parts_in(part, path):
        if isinstance(component, base):
            for message in component.misfits(place):
                yield path_of_component, message


def _misfits_of_prompts(encoder: EncoderRecipe) -> Iterator[tuple[str, str]]:
    """Yield the problems of each prompt of an encoder, and of all its prompts together."""
    pooler = encoder.pooler
    count = len(encoder.prompts)
    if count == 0:
        yield (
            "prompt",
            "`prompt` is an empty array; give at least one prompt, or take it out",
        )
    if count > 1 and pooler.needs & NEEDS_OF_ONE_TEMPLATE:
        yield (
            "prompt",
            f"the pooler `{pooler.name}` subtracts the state of one template, and there are {count} prompts; "
            "give one, or set `denoise = false`",
        )

    for prompt in encoder.prompts:
        yield from _prompt_misfits(encoder, prompt)


def _reasons(needs: frozenset[str]) -> str:
    """Return a description of needs for a message."""
    return " and ".join(POOLER_NEEDS.get(need, f"`{need}`") for need in sorted(needs))


def _similarity_misfits(encoder: EncoderRecipe) -> Iterator[tuple[KeyPath, str]]:
    """Yield why a similarity, several prompts or a transform cannot work with the pooler's output."""
    output = encoder.pooler.output
    similarity = encoder.similarity
    reader, compares = "the cosine", VECTORS
    if similarity is not None:
        reader, compares = f"the similarity `{similarity.name}`", similarity.compares
    for message in unread_output(encoder, reader, compares):
        yield ("similarity",), message
    if output == "tokens" and len(encoder.prompts) > 1:
        message = "several prompts give vectors of other tokens each, which cannot be joined; give one"
        yield ("prompt",), message
    if encoder.head.transform is not None:
        for message in unread_output(encoder, "a transform", VECTORS):
            yield ("head",), message


def unread_output(
    encoder: EncoderRecipe,
    reader: str,
    reads: frozenset[Output],
) -> Iterator[str]:
    """Yield a message if what reads the output of an encoder's pooler, such as a loss, does not read this one."""
    pooler = encoder.pooler
    output = pooler.output
    if output not in reads:
        names = listed(sorted(reads))
        yield (
            f"the pooler `{pooler.name}` has the output `{output}`, and {reader} reads {names}; use another of "
            "the two"
        )


def runtime_misfits(runtime: Runtime, encoder: EncoderRecipe) -> Iterator[str]:
    """Yield reasons why an encoder cannot run on a runtime with its current settings."""
    needs: set[str] = {encoder.pooler.output}
    if encoder.backbone.auxiliary is not None:
        needs.add("auxiliary-prompt")
    if encoder.marks:
        needs.add("marked-tokens")
    for word in sorted(needs - runtime.offers):
        yield (
            f"the runtime `{runtime.name}`, as it is set, runs no {RUNTIME_OFFERS[word]}, which the encoder "
            "has; use another, such as `cpu`, or change the encoder"
        )
    yield from runtime.misfits(encoder)


def beyond_positions(encoder: EncoderRecipe, max_length: int) -> Iterator[str]:
    """Yield a message if the backbone of an encoder has fewer positions than `max_length`."""
    positions = encoder.backbone.most_tokens()
    if positions is not None and max_length > positions:
        yield (
            f"`max_length` is {max_length:,}, and the backbone `{encoder.backbone.name}` has positions for "
            f"{positions:,} tokens; set `max_length` to {positions} or less"
        )


def _pooler_misfits(encoder: EncoderRecipe) -> Iterator[tuple[KeyPath, str]]:
    """Yield why a pooler cannot take its weights, or a projection its vectors."""
    backbone, pooler, head = encoder.backbone, encoder.pooler, encoder.head
    if pooler.pretrained and not backbone.pretrained:
        yield (
            ("pooler",),
            f"the pooler starts with weights of the backbone's model, and those of `{backbone.name}` are "
            "random; name a pretrained `model`, or take `pretrained` out of the pooler",
        )
    if pooler.at_test is not None and head.projection is not None:
        yield (
            ("head",),
            f"`projection` is trained on what the pooler `{pooler.name}` computes in training, and encoding "
            f"would apply it to something else, `{name_at_test(pooler)}`; take `projection` out",
        )


def _prompt_misfits(
    encoder: EncoderRecipe,
    prompt: Prompt | None,
    of_task: bool = False,
) -> Iterator[tuple[str, str]]:
    """Yield a key and a message for each problem that a prompt has with the backbone and the pooler.

    `of_task` says whether it is one of `task_prompts`.
    """
    backbone, pooler = encoder.backbone, encoder.pooler
    needs = pooler.needs
    try:
        resolved = encoder.resolved(prompt)
    except SentbedError as error:
        yield "prompt", str(error)
        return

    if resolved is None:
        if needs & {TEMPLATE, "mask-token"}:
            yield (
                "pooler",
                f"the pooler `{pooler.name}` needs a template; "
                'add `prompt = { template = "..." }` with `{text}` where the sentence goes',
            )
        elif backbone.placeholder or backbone.auxiliary:
            yield (
                "prompt",
                f"the backbone `{backbone.name}` intervenes in a prompt, and there is none; "
                'add `prompt = { template = "..." }`, such as `prompt-eol`',
            )
        return

    if of_task and not resolved.is_prefix:
        yield (
            "prompt",
            "it is more than a text before the sentence; end its template with `{text}`, and give it no text "
            "rules (`normalizer`)",
        )
        return
    if not of_task and INSTRUCTION in str(resolved.template):
        yield (
            "prompt",
            f"the template {str(resolved.template)!r} has `{INSTRUCTION}`, which stands for that of a task; "
            "spell the instruction out, or put the prompt into `task_prompts`",
        )
    for message in _template_misfits(encoder, resolved.template):
        yield "prompt", message


def name_at_test(pooler: Pooler) -> str:
    """Return the name of the pooling that a pooler does in eval mode, such as `clipped of first`.

    The name is `OUTER of INNER` if the pooling is that of a pooler within this pooler.
    """
    at_test = pooler.at_test
    if at_test is None:
        return pooler.name
    for inner in inner_parts(pooler, Pooler):
        if inner.at_test == at_test:
            return f"{pooler.name} of {name_at_test(inner)}"
    return at_test


def _template_misfits(
    encoder: EncoderRecipe,
    template: Template,
) -> Iterator[str]:
    """Yield reasons why a template does not suit the backbone and the pooler."""
    backbone, pooler = encoder.backbone, encoder.pooler
    needs, offers = pooler.needs, backbone.offers
    has_mask = MASK in template.suffix

    if template.between is not None:
        twice = f"the template {str(template)!r} has the sentence twice, the second one to be pooled, and"
        if offers is not None and "span" not in offers:
            yield f"{twice} `{backbone.name}` cannot hide the first; write `{{text}}` once"
        elif needs & {"decoder", "mask-token"} or pooler.pooling == "cls":
            yield (
                f"{twice} the pooler `{pooler.name}` reads a single state that says nothing of it; use a pooler "
                "such as `mean` or `last`, or write `{text}` once"
            )

    if "mask-token" in needs and not has_mask:
        yield (
            f"the pooler `{pooler.name}` reads the mask token, and the template {str(template)!r} has none; "
            "write `{mask}` in it, behind `{text}`"
        )

    if has_mask and offers is not None and "mask-token" not in offers:
        yield (
            f"the template {str(template)!r} has a `{{mask}}`, and the backbone "
            f"`{backbone.name}` has no mask token; take it out"
        )


def _task_prompt_misfits(
    encoder: EncoderRecipe,
    task_prompts: Mapping[str, Prompt],
) -> Iterator[str]:
    """Yield reasons why `task_prompts` cannot take the place of the encoder's prompt."""
    if len(encoder.prompts) != 1:
        count = len(encoder.prompts)
        yield f"there are {count} prompts, and a task's takes the place of one; give one `prompt`"
    if encoder.pooler.needs & NEEDS_OF_ONE_TEMPLATE:
        yield (
            f"the pooler `{encoder.pooler.name}` subtracts the state of one template; "
            "take `task_prompts` out, or set `denoise = false`"
        )
    if encoder.backbone.auxiliary is not None:
        yield (
            f"the backbone `{encoder.backbone.name}` reads a second prompt, and a task has one; "
            "take `task_prompts` out"
        )
    for key, prompt in task_prompts.items():
        for _, message in _prompt_misfits(encoder, prompt, of_task=True):
            yield f"the prompt of `{key}`: {message}"
