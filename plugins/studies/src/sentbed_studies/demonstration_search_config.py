"""Configuration of the demonstration search: the table `[search]` of a recipe."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
    """`[search]`: search for the best demonstration of a prompt (PromptEOL, section 3.2).

    `sentbed search` scores each candidate with the encoder before training.
    """

    traits: ClassVar[TableTraits] = TableTraits(
        no_run="the recipe has a `[search]`, which `sentbed run` does not do; "
        "use `sentbed search` first, then run the `resolved.toml` that it writes"
    )

    evaluator: Evaluator = attrs.field(metadata={"key": "with"})
    """Evaluator whose primary score ranks the candidates. It must use development data, never a test set."""
    candidates: FilePath = attrs.field(
        default=FilePath("pkg:sentbed_studies/demonstrations.tsv")
    )
    """File of candidates, one per line. `.tsv`: the columns `sentence` and `word`, repeated if a candidate
    has several demonstrations. `.jsonl`: a `sentence` and a language model's `answer`. Any other suffix: a
    prompt template that contains its demonstrations, quoted as in PromptEOL's shell scripts. Default: 40
    candidates that come with sentbed."""
    encoder: str | None = None
    """Encoder whose prompt gets the demonstration; optional if the recipe has only one encoder."""
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of candidates that are scored, from the beginning of the file; by default all."""

    def problems(
        self,
        recipe: RecipeParts,
        plugins: InstalledPlugins,
        check_files: bool,
    ) -> Iterator[tuple[KeyPath, str]]:
        """Yield key path and message of each problem of the search in this recipe."""
        recipe = cast(Recipe, recipe)
        plugins = cast(Plugins, plugins)
        names = ", ".join(f"`{name}`" for name in recipe.encoders)
        if self.encoder is not None and self.encoder not in recipe.encoders:
            message = f"there is no encoder `{self.encoder}`, the recipe has {names}; name one of them"
            yield ("encoder",), message
        elif self.encoder is None and len(recipe.encoders) > 1:
            message = f"the recipe has several encoders ({names}); say which one with `encoder`"
            yield ("encoder",), message

        if not self.evaluator.traits.development:
            reason = "a search chooses what scores best"
            yield ("with",), problem_of_test_data(reason, self.evaluator)

        searched = recipe.encoders.get(self.encoder or recipe.main_encoder)
        if searched is None or not check_files:
            return

        for encoder in recipe.encoders.values():
            if list(misfits(encoder)):
                # The parts of the encoder do not fit together, so no candidate would fit.
                return

        message = self._unfit_candidate(searched, plugins)
        if message:
            yield ("candidates",), message

    def _unfit_candidate(self, encoder: EncoderRecipe, plugins: Plugins) -> str:
        """Return the message for the first candidate that does not fit the encoder; empty if all fit."""
        try:
            candidates = candidate_prompts(
                self.candidates, encoder.prompts, encoder.pooler
            )
        except SentbedError as error:
            return f"{error}{_remedy(self.candidates, plugins)}"

        for prompts in candidates:
            prompted = attrs.evolve(encoder, prompt=as_field(prompts))
            for _, message in misfits(prompted):
                candidate = prompts[0].template or prompts[0].demonstration
                return f"the candidate {candidate!r} does not fit: {message}"
        return ""


def _remedy(candidates: str, plugins: Plugins) -> str:
    """Return how to get a missing file of candidates, as a clause that begins with `; `.

    Return an empty text if the file is there, or if no plugin offers it.
    """
    with suppress(DataError):
        locate(candidates)
        return ""

    collections: list[Sequence[KnownData]] = plugins.manager.hook.known_data()
    for collection in itertools.chain.from_iterable(collections):
        for place, file in itertools.product(collection.places, collection.files):
            if candidates == f"data:{place}/{file.path}":
                return f"; {collection.remedy}"
    return ""
