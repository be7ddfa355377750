"""Checks whether the components of an encoder can be combined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from sentbed._component_faults import release_of
from sentbed._document.structuring import parts_in
from sentbed._document.toml import KeyPath, dotted
from sentbed._recipe.prompts import (
    INSTRUCTION,
    MASK,
    TEMPLATES,
    Prompt,
    Template,
    parse_template,
)
from sentbed.errors import SentbedError, listed
from sentbed.protocols import (
    Backbone,
    Output,
    Pooler,
    Runtime,
    inner_parts,
)

if TYPE_CHECKING:
    from sentbed._recipe.recipe import EncoderRecipe

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "bidirectional": "attention in both directions (in a causal model the first token has seen nothing "
        "of the text, and every text gets the same vector)",
        "causal": "causal attention (its vector is the state from which the next word is predicted)",
        "decoder": "a decoder that reads the encoded text",
        "mask-token": "a mask token in the vocabulary",
        "layers": "the states of every layer",
        "logits": "the logits of a masked language model's head",
        "template-alone": "the state of the template without a sentence",
        "template-alone-from-0": "the state of the template without a sentence, at positions from 0",
    }
)
"""How messages describe each need of a pooler (`PoolerTraits.needs`)."""

OUTPUTS: Mapping[Output, str] = MappingProxyType(
    {
        "vector": "one vector of each text",
        "tokens": "a vector of each token",
        "sparse": "a sparse vector of each text",
    }
)
"""How messages describe each output of a pooler (`protocols.Output`)."""

TEMPLATE = "template"
"""Need of a pooler that the recipe's prompt must meet, not the backbone."""

NEEDS_OF_ONE_TEMPLATE = frozenset({"template-alone", "template-alone-from-0"})
"""Needs of a pooler that subtracts the state of the template without a sentence."""


def misfits(encoder: EncoderRecipe) -> Iterator[tuple[str, str]]:
    """Yield the path of a key and a message for each reason why the parts of an encoder cannot be combined.

    The path is dotted, and begins below `[encoder]`.
    """
    backbone, pooler = encoder.backbone, encoder.pooler
    needs, offers = pooler.traits.needs, backbone.traits.offers
    if undeclared := _undeclared_needs(pooler):
        yield undeclared
        return
    if offers is not None and (unmet := needs - offers - {TEMPLATE}):
        path, label = _pooler_with_needs(pooler, unmet)
        yield (
            path,
            f"the pooler {label} needs {_reasons(unmet)}, and the backbone `{backbone.name}` has none; "
            "choose another of the two",
        )
        # Problems of the prompt do not matter, since the pooler or the backbone must be changed first.
        return

    yield from _pooler_misfits(encoder)
    yield from _output_misfits(encoder)
    for message in backbone.misfits(needs):
        yield "backbone", message
    if (transform := encoder.head.transform) is not None:
        for message in transform.misfits(encoder):
            yield "head", message
    if (problem := beyond_positions(encoder, encoder.max_length)) is not None:
        yield "max_length", problem
    yield from _misfits_of_prompts(encoder)
    if encoder.task_prompts is not None:
        for message in _task_prompt_misfits(encoder, encoder.task_prompts):
            yield "task_prompts", message


def _misfits_of_prompts(encoder: EncoderRecipe) -> Iterator[tuple[str, str]]:
    """Yield the problems of each prompt of an encoder, and of all its prompts together."""
    pooler = encoder.pooler
    count = len(encoder.prompts)
    if count == 0:
        yield (
            "prompt",
            "`prompt` is an empty array; give at least one prompt, or take it out",
        )
    if count > 1 and pooler.traits.needs & NEEDS_OF_ONE_TEMPLATE:
        yield (
            "prompt",
            f"the pooler `{pooler.name}` subtracts the state of one template, and there are {count} prompts; "
            "give one, or set `denoise = false`",
        )

    for prompt in encoder.prompts:
        yield from _prompt_misfits(encoder, prompt)
        template = _template_of(prompt)
        if template is not None and INSTRUCTION in str(template):
            yield (
                "prompt",
                f"the template {str(template)!r} has `{INSTRUCTION}`, which stands for that of a task; "
                "spell the instruction out, or put the prompt into `task_prompts`",
            )


def _reasons(needs: frozenset[str]) -> str:
    """Return a description of needs for a message."""
    return " and ".join(REASONS.get(need, f"`{need}`") for need in sorted(needs))


def _pooler_with_needs(pooler: Pooler, needs: frozenset[str]) -> tuple[str, str]:
    """Return the dotted path and the label of the innermost pooler that has all these needs.

    It is `pooler` itself, or one of its inner poolers.
    """
    path: KeyPath = ("pooler",)
    label = f"`{pooler.name}`"
    for inner_path, inner in parts_in(pooler, ("pooler",)):
        if not isinstance(inner, Pooler) or not needs <= inner.traits.needs:
            continue
        if len(inner_path) > len(path):
            path = inner_path
            label = f"`{inner.name}` within `{pooler.name}`"
    return dotted(path), label


def _undeclared_needs(pooler: Pooler) -> tuple[str, str] | None:
    """Return the path of a key and a message if the traits of a pooler lack a need of a pooler within it."""
    for path, inner in parts_in(pooler, ("pooler",)):
        if not isinstance(inner, Pooler):
            continue
        if undeclared := inner.traits.needs - pooler.traits.needs:
            release = release_of(type(pooler).__module__)
            message = (
                f"the pooler `{inner.name}` within `{pooler.name}` needs {_reasons(undeclared)}, and "
                f"`{pooler.name}` of {release} does not say so; choose another, or "
                "let its plugin write `traits` as `PoolerTraits.of(...)` of the poolers in its fields"
            )
            return dotted(path), message
    return None


def _output_misfits(encoder: EncoderRecipe) -> Iterator[tuple[str, str]]:
    """Yield the problems of a similarity, of prompts and of a head that cannot work with the pooler's output."""
    output = encoder.pooler.traits.output
    similarity = encoder.similarity
    label = "the cosine"
    compares = frozenset[Output]({"vector", "sparse"})
    if similarity is not None:
        label = f"the similarity `{similarity.name}`"
        compares = similarity.traits.compares
    if output not in compares:
        yield (
            "similarity",
            f"the pooler `{encoder.pooler.name}` gives {OUTPUTS[output]}, which {label} does not compare; "
            "set another `similarity`",
        )

    if output != "tokens":
        return
    if len(encoder.prompts) > 1:
        yield (
            "prompt",
            f"{len(encoder.prompts)} prompts give vectors of other tokens each, which cannot be joined; "
            "give one",
        )
    if encoder.head.transform is not None:
        yield (
            "head",
            "a transform is fitted to one vector of each text, and the pooler "
            f"`{encoder.pooler.name}` gives {OUTPUTS[output]}; take it out",
        )


def unread_output(
    pooler: Pooler,
    part: str,
    reads: frozenset[Output],
) -> str | None:
    """Return a message if a part of a recipe, such as a loss, cannot use a pooler's output; else None.

    `reads` has the outputs that it can use.
    """
    output = pooler.traits.output
    if output in reads:
        return None
    usable = [description for name, description in OUTPUTS.items() if name in reads]
    return (
        f"{part} reads {' or '.join(usable)}, and the pooler `{pooler.name}` gives {OUTPUTS[output]}; "
        "use another of the two"
    )


def runtime_misfits(runtime: Runtime, encoder: EncoderRecipe) -> Iterator[str]:
    """Yield reasons why an encoder cannot run on a runtime with its current settings."""
    if encoder.backbone.traits.auxiliary is not None and not runtime.traits.auxiliary:
        yield (
            f"the runtime `{runtime.name}`, as it is set, runs no auxiliary prompt, which the backbone "
            f"`{encoder.backbone.name}` needs; use another, such as `cpu`"
        )
    if encoder.marks and not runtime.traits.marked_tokens:
        yield (
            f"the runtime `{runtime.name}`, as it is set, takes no prompt that hides tokens, chooses layers "
            "or has a placeholder; use another, such as `cpu`, or another prompt"
        )
    problem = unread_output(
        encoder.pooler,
        f"the runtime `{runtime.name}`, as it is set,",
        runtime.traits.outputs,
    )
    if problem is not None:
        yield problem
    messages: list[str] = []
    for backbone in encoder.backbones:
        reasons = runtime.misfits(backbone, encoder.pooler, encoder.head)
        messages += list(reasons)
    yield from dict.fromkeys(messages)


def beyond_positions(encoder: EncoderRecipe, max_length: int) -> str | None:
    """Return a message if the backbone of an encoder has fewer positions than `max_length`; else None."""
    positions = encoder.backbone.most_tokens()
    if positions is None or max_length <= positions:
        return None
    return (
        f"`max_length` is {max_length:,}, and the backbone `{encoder.backbone.name}` has positions for "
        f"{positions:,} tokens; set `max_length` to {positions} or less"
    )


def _pooler_misfits(encoder: EncoderRecipe) -> Iterator[tuple[str, str]]:
    """Yield a problem if the backbone has no pretrained weights for the pooler.

    Also yield one if the head has a projection, but the pooler computes something else in eval mode.
    """
    backbone, pooler, head = encoder.backbone, encoder.pooler, encoder.head
    if pooler.traits.pretrained and not backbone.traits.pretrained:
        yield (
            "pooler",
            f"the pooler `{pooler.name}` starts with weights of the backbone's model, and those of the "
            f"backbone `{backbone.name}` are random; name a pretrained `model` in the backbone, or take "
            "`pretrained` out of the pooler",
        )
    if pooler.traits.at_test is not None and head.projection is not None:
        yield (
            "head",
            f"`projection` is trained on what the pooler `{pooler.name}` computes in training, and encoding "
            f"would apply it to something else, `{name_at_test(pooler)}`; take `projection` out"
            f"{_width(pooler)}",
        )


def _width(pooler: Any) -> str:
    """Return advice to set the pooler's field for the width in training; empty if it has no such field."""
    for field in attrs.fields(type(pooler)):
        if field.name.endswith("width"):
            return f", and where vectors need another width in training, set `{field.name}` of the pooler"
    return ""


def _prompt_misfits(
    encoder: EncoderRecipe,
    prompt: Prompt,
) -> Iterator[tuple[str, str]]:
    """Yield a key and a message for each problem that a prompt has with the backbone and the pooler."""
    backbone, pooler = encoder.backbone, encoder.pooler
    needs = pooler.traits.needs
    if problems := list(prompt.check()):
        for problem in problems:
            yield "prompt", problem
        return
    try:
        resolved = prompt.resolve(pooler, backbone.traits)
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
        elif backbone.traits.placeholder or backbone.traits.auxiliary:
            yield (
                "prompt",
                f"the backbone `{backbone.name}` intervenes in a prompt, and there is none; "
                'add `prompt = { template = "..." }`, such as `prompt-eol`',
            )
        return

    if resolved.layers:
        for message in _misfits_of_layers(backbone, resolved.layers, needs):
            yield "prompt", message
    for message in _template_misfits(encoder, resolved.template):
        yield "prompt", message


def _misfits_of_layers(
    backbone: Backbone,
    layers: tuple[int, ...],
    needs: frozenset[str],
) -> Iterator[str]:
    """Yield reasons why a prompt cannot select these layers of a backbone."""
    reading = backbone.reading(layers)
    if reading is None:
        yield f"the backbone `{backbone.name}` lets no prompt choose `layers`; take them out"
        return
    messages = (*reading.check(), *reading.misfits(needs))
    yield from messages


def name_at_test(pooler: Pooler) -> str:
    """Return the name of the pooling that a pooler does in eval mode, such as `clipped of first`.

    The name is `OUTER of INNER` if the pooling is that of a pooler within this pooler.
    """
    at_test = pooler.traits.at_test
    if at_test is None:
        return pooler.name
    for inner in inner_parts(pooler, Pooler):
        if inner.traits.at_test == at_test:
            return f"{pooler.name} of {name_at_test(inner)}"
    return at_test


def _template_misfits(
    encoder: EncoderRecipe,
    template: Template,
) -> Iterator[str]:
    """Yield reasons why a template does not suit the backbone and the pooler."""
    backbone, pooler = encoder.backbone, encoder.pooler
    needs, offers = pooler.traits.needs, backbone.traits.offers
    has_mask = MASK in template.suffix

    if template.between is not None:
        twice = f"the template {str(template)!r} has the sentence twice, the second one to be pooled, and"
        if offers is not None and "span" not in offers:
            yield f"{twice} `{backbone.name}` cannot hide the first; write `{{text}}` once"
        elif needs & {"decoder", "mask-token"} or pooler.traits.pooling == "cls":
            yield (
                f"{twice} the pooler `{pooler.name}` reads a single state that says nothing of it; use a pooler "
                "such as `mean` or `last`, or write `{text}` once"
            )

    if "mask-token" in needs and not has_mask:
        with_mask = [name for name, text in TEMPLATES.items() if MASK in text]
        yield (
            f"the pooler `{pooler.name}` reads the mask token, and the template {str(template)!r} has none; "
            f"write `{{mask}}` in it, or use the template {listed(with_mask)}"
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
    if encoder.pooler.traits.needs & NEEDS_OF_ONE_TEMPLATE:
        yield (
            f"the pooler `{encoder.pooler.name}` subtracts the state of one template; "
            "take `task_prompts` out, or set `denoise = false`"
        )
    spellings: dict[str, str] = {}
    for key, prompt in task_prompts.items():
        other = spellings.setdefault(key.lower(), key)
        if other != key:
            yield f"`{other}` and `{key}` are for the same texts, whatever their case; give one of them"
        if prompt.layers is not None:
            yield f"the prompt of `{key}` chooses `layers`; only the encoder's `prompt` can"
            continue
        for _, message in _prompt_misfits(encoder, prompt):
            yield f"the prompt of `{key}`: {message}"
        template = _template_of(prompt)
        if template is not None and template.between is not None:
            yield f"the prompt of `{key}` has the sentence twice; write `{{text}}` once"


def _template_of(prompt: Prompt) -> Template | None:
    """Return the template of a prompt, which may be in a file; None if there is none, or it is invalid."""
    try:
        text = prompt.without_file().template
        if text is None:
            return None
        return parse_template(text)
    except SentbedError:
        # `_prompt_misfits` reports an invalid template.
        return None
