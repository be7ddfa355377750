from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import attrs
import pytest
from sentbed.protocols import Head, Recipe
from sentbed_poolers.template_prompt import Demonstration, TemplatePrompt
from sentbed_studies.shared_forward_passes import can_share
from sentbed_studies.shared_work_plan import groups
from toy_plugin import RECIPE, Average, Centre, Characters, Gap, Toy, Words

START = RECIPE.index("[[stage]]")
PLAIN = RECIPE[:START] + RECIPE[RECIPE.index("[[evaluate]]") :].replace(
    'at = ["start", "end"]\n', ""
)
QUOTED = TemplatePrompt(template='Say "{text}" is "')


@attrs.frozen
class Loaded(Characters):
    """All of it comes from files; builds another thing for a pooler that needs `layers`."""

    from_files = True
    heeds = frozenset({"layers"})


@attrs.frozen
class First(Average):
    name: ClassVar[str] = "first"
    needs = frozenset({"bidirectional"})


@attrs.frozen
class Layers(Average):
    name: ClassVar[str] = "layers"
    needs = frozenset({"layers"})


@attrs.frozen
class Asking(Average):
    name: ClassVar[str] = "asking"
    prompt = QUOTED


@pytest.fixture
def drawn(recipe_of):
    """A recipe whose backbone does not say where its weights come from."""
    return recipe_of(PLAIN)


@pytest.fixture
def loaded(drawn):
    return with_encoder(drawn, backbone=Loaded())


def with_encoder(recipe, **changes):
    (name,) = recipe.encoders
    return attrs.evolve(
        recipe, encoders={name: attrs.evolve(recipe.encoders[name], **changes)}
    )


def seeded(recipe, seed):
    return attrs.evolve(recipe, run=attrs.evolve(recipe.run, seed=seed))


def evaluating(recipe, evaluator):
    return attrs.evolve(
        recipe, evaluate=(attrs.evolve(recipe.evaluate[0], evaluator=evaluator),)
    )


AFTER: dict[str, Callable[[Recipe], Recipe]] = {
    "pooler": lambda r: with_encoder(r, pooler=First()),
    "head": lambda r: with_encoder(r, head=Head(projection=2, normalize=True)),
    "seed": lambda r: seeded(r, 8),
    "evaluator": lambda r: evaluating(r, Gap(left="x")),
    "name of the run": lambda r: attrs.evolve(r, run=attrs.evolve(r.run, name="other")),
    "a prompt that changes nothing": lambda r: with_encoder(r, prompt=TemplatePrompt()),
}


@pytest.mark.parametrize("change", AFTER)
def test_what_comes_after_a_backbone_from_files_may_differ(change, loaded):
    other = AFTER[change](loaded)
    assert other != loaded
    assert can_share(loaded, other)
    assert can_share(other, loaded)


BEFORE: dict[str, Callable[[Recipe], Recipe]] = {
    "backbone": lambda r: with_encoder(r, backbone=Loaded(width=5)),
    "length": lambda r: with_encoder(r, max_length=15),
    "prompt": lambda r: with_encoder(r, prompt=QUOTED),
    "a pooler that brings a prompt": lambda r: with_encoder(r, pooler=Asking()),
    "what the backbone heeds": lambda r: with_encoder(r, pooler=Layers()),
    "texts that a transform is fitted on": lambda r: with_encoder(
        r, head=Head(transform=Centre(Words(5)))
    ),
    "runtime": lambda r: attrs.evolve(r, runtime=Toy(token_budget=65)),
    "name of the encoder": lambda r: attrs.evolve(
        r, encoders={"en": r.encoders["encoder"]}
    ),
    "cache": lambda r: attrs.evolve(r, run=attrs.evolve(r.run, cache=False)),
}


@pytest.mark.parametrize("change", BEFORE)
def test_what_decides_a_token_state_may_not(change, loaded):
    other = BEFORE[change](loaded)
    assert not can_share(loaded, other)
    assert not can_share(other, loaded)
    assert can_share(other, other) == (
        change not in {"cache", "texts that a transform is fitted on"}
    )


def test_a_demonstration_that_differs_is_another_prompt(loaded):
    first, second = (
        with_encoder(
            loaded, prompt=attrs.evolve(QUOTED, demonstration=Demonstration("a", word))
        )
        for word in "bc"
    )
    assert can_share(first, first)
    assert not can_share(first, second)


def test_a_prompt_of_the_recipe_is_that_of_a_pooler_where_both_say_the_same(
    loaded,
):
    prompted = with_encoder(loaded, prompt=attrs.evolve(QUOTED, normalizer="none"))
    assert can_share(prompted, with_encoder(loaded, pooler=Asking()))


def test_training_shares_no_pass(recipe_of):
    recipe = recipe_of()
    assert recipe.stage
    assert not can_share(recipe, recipe)


@pytest.mark.parametrize("change", ["seed", "evaluator"])
def test_a_backbone_that_may_draw_depends_on_seed_and_texts(change, drawn):
    assert can_share(drawn, with_encoder(drawn, head=Head(normalize=True)))
    assert not can_share(drawn, AFTER[change](drawn))


def test_a_backbone_that_does_not_say_what_it_heeds_heeds_every_need(drawn):
    assert not can_share(drawn, with_encoder(drawn, pooler=First()))


def test_groups_are_in_order_and_hold_every_recipe_once(loaded):
    longer = with_encoder(loaded, max_length=15)
    recipes = [
        loaded,
        longer,
        AFTER["pooler"](loaded),
        AFTER["head"](longer),
        BEFORE["cache"](loaded),
    ]
    assert groups(recipes) == [[0, 2], [1, 3], [4]]
    assert groups([]) == []
