"""Configuration of the demonstration search: the table `[search]` of a recipe."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar, cast

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, FilePath, locate
from sentbed.errors import SentbedError
from sentbed.protocols import (
    Evaluator,
    InstalledPlugins,
    RecipeParts,
    RecipeTable,
    TableTraits,
)
from sentbed.tools import (
    EncoderRecipe,
    KeyPath,
    Plugins,
    Recipe,
    misfits,
    problem_of_test_data,
)
from sentbed_common import KnownData

from sentbed_studies.demonstration_candidates import as_field, candidate_prompts


@attrs.frozen
class Search(RecipeTable):
    """`[search]`: which demonstration makes the prompt best (PromptEOL, section 3.2).

    `sentbed search` scores each candidate with the encoder as it is built, before any stage.
    """

    traits: ClassVar[TableTraits] = TableTraits(
        no_run="the recipe has a `[search]`, which `sentbed run` does not do; "
        "use `sentbed search` first, then run the `resolved.toml` that it writes"
    )

    evaluator: Evaluator = attrs.field(metadata={"key": "with"})
    """Evaluator whose primary score ranks the candidates; must use development data, never a test set."""
    candidates: FilePath = attrs.field(
        default=FilePath("pkg:sentbed_studies/demonstrations.tsv")
    )
    """A `.tsv` file with the columns `sentence` and `word`, both again for each further demonstration of a
    candidate; a `.jsonl` file with a `sentence` and a language model's `answer` a line; or one template with
    its demonstrations a line, in PromptEOL's shell form. Default: 40 that come with sentbed."""
    encoder: str | None = None
    """Encoder whose prompt is searched; optional if the recipe has only one."""
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of candidates to try, from the first; by default all."""

    def problems(
        self, recipe: RecipeParts, plugins: InstalledPlugins, look: bool
    ) -> Iterator[tuple[KeyPath, str]]:
        """Yield problems of the search with the recipe's encoders."""
        recipe = cast(Recipe, recipe)
        plugins = cast(Plugins, plugins)
        names = ", ".join(f"`{name}`" for name in recipe.encoders)
        if self.encoder is not None and self.encoder not in recipe.encoders:
            message = f"there is no encoder `{self.encoder}`, the recipe has {names}; name one of them"
            yield ("encoder",), message
        elif self.encoder is None and len(recipe.encoders) > 1:
            yield (
                ("encoder",),
                f"the recipe has several encoders ({names}); say which one with `encoder`",
            )
        if not self.evaluator.traits.development:
            yield (
                ("with",),
                problem_of_test_data(
                    "a search chooses what scores best", self.evaluator
                ),
            )
        searched = recipe.encoders.get(self.encoder or recipe.main_encoder)
        if searched is None or not look:
            return
        # Candidates of an encoder that does not fit together would not fit either.
        if not any(
            list(misfits(encoder, plugins)) for encoder in recipe.encoders.values()
        ):
            message = self._unfit_candidate(searched, plugins)
            if message:
                yield ("candidates",), message

    def _unfit_candidate(self, encoder: EncoderRecipe, plugins: Plugins) -> str:
        """Return what is wrong with the first candidate that does not fit; empty if all do."""
        try:
            candidates = candidate_prompts(
                self.candidates, encoder.prompts, encoder.pooler
            )
        except SentbedError as error:
            return f"{error}{_how_to_get(self.candidates, plugins)}"
        for prompts in candidates:
            for _, message in misfits(
                attrs.evolve(encoder, prompt=as_field(prompts)), plugins
            ):
                what = prompts[0].template or prompts[0].demonstration
                return f"the candidate {what!r} does not fit: {message}"
        return ""


def _how_to_get(candidates: str, plugins: Plugins) -> str:
    """Return how to get a file of candidates that is not there, if a plugin knows it, as a clause."""
    try:
        locate(candidates)
    except DataError:
        collections: list[Sequence[KnownData]] = plugins.manager.hook.known_data()
    else:
        return ""
    for collection in itertools.chain.from_iterable(collections):
        for place, file in itertools.product(collection.places, collection.files):
            if candidates == f"data:{place}/{file.path}":
                return f"; {collection.remedy}"
    return ""
