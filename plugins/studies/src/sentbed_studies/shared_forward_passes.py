"""Forward passes that runs share: one pass of a backbone gives the vectors of several poolers and heads.

When a run of a study encodes texts, the vectors that later runs need of these texts are computed and stored, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs
from sentbed import Encoder
from sentbed.helpers import reason_of
from sentbed.protocols import EncoderRecipe, Recipe, Transform, VectorStore
from sentbed.tools import Progress, head_seed, self_contained
from sentbed_common import fingerprint_of
from sentbed_workbench.vector_cache import VectorCache, list_digest

from sentbed_studies.cell_keys import is_from_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_SHARED_BYTES = 2**30
"""Maximum size in bytes of all vectors of one shared pass. Encoders whose vectors would exceed it get a pass of
their own."""


def can_share(a: Recipe, b: Recipe) -> bool:
    """Whether one forward pass of the backbone gives bit-identical vectors for both recipes.

    The recipes may differ only in pooler, head and evaluators; in seeds, too, if all weights come from files.
    """
    for recipe in (a, b):
        if recipe.stage or not recipe.run.cache:
            return False
        if any(table.traits.no_run for table in recipe.tables.values()):
            return False

    if a.runtime != b.runtime or list(a.encoders) != list(b.encoders):
        return False

    for name, encoder in a.encoders.items():
        if not _have_same_states(encoder, b.encoders[name]):
            return False

    if is_from_files(a):
        return True
    # Random weights depend on the seed, and a trained tokenizer depends on the texts of the evaluations.
    return a.run.seed == b.run.seed and a.evaluate == b.evaluate


def _have_same_states(a: EncoderRecipe, b: EncoderRecipe) -> bool:
    """Whether one pass over the same texts gives the token states of both encoders."""
    if "tokens" in (a.pooler.output, b.pooler.output):
        return False

    # The texts on which a transform is fitted would be encoded here for each recipe, and again in its run.
    if _is_fitted_on_texts(a) or _is_fitted_on_texts(b):
        return False

    # A shared pass encodes the texts with a single prompt.
    if len(a.prompts) != 1 or a.resolved_prompts != b.resolved_prompts:
        return False

    if a.task_prompts or b.task_prompts:
        return False

    if a.backbone != b.backbone or a.max_length != b.max_length:
        return False
    return _needs_of_backbone(a) == _needs_of_backbone(b)


def _is_fitted_on_texts(encoder: EncoderRecipe) -> bool:
    transform = encoder.head.transform
    return transform is not None and type(transform).texts is not Transform.texts


def _needs_of_backbone(encoder: EncoderRecipe) -> frozenset[str]:
    """Return those `needs` of the pooler that change what the backbone builds or computes."""
    needs = encoder.pooler.needs
    heeds = encoder.backbone.heeds
    return needs if heeds is None else needs & heeds


def share_passes(
    recipe: Recipe,
    others: Sequence[Recipe],
    store: VectorStore,
    encoders: Mapping[str, Encoder],
    warn: Callable[[str], None],
) -> VectorStore:
    """Return a vector store for a run that also computes and stores vectors for other runs, in the same passes.

    If no run can share, or `store` is not sentbed's vector cache, it is returned itself.

    Args:
        recipe: Recipe of the run.
        others: Recipes of the other runs; those that cannot share are skipped.
        store: Vector store of the run.
        encoders: Encoders of the run, by name.
        warn: Gets a line for each encoder of `others` that cannot be built.
    """
    sharing = []
    for other in others:
        if other is not recipe and can_share(recipe, other):
            sharing.append(other)
    # Runs that share do not train, so that the fingerprints of their encoders stay the same.
    if not sharing or not isinstance(store, VectorCache):
        return store

    passes = []
    for name, encoder in encoders.items():
        shared = SharedPass(encoder)
        passes.append(shared)
        if encoder.placed.beside(()) is None:
            continue
        for other in sharing:
            try:
                shared.add(other.encoders[name], head_seed(other, name))
            except Exception as error:  # noqa: BLE001 - another recipe's parts must not stop this run
                warn(
                    f"`{name}` of `{other.run.name}` cannot be encoded in the same pass: {reason_of(error)}"
                )

    return SharedCache(
        store.root,
        store.limit,
        store.say,
        store.taken,
        store.encoded,
        passes=passes,
    )


@attrs.define(eq=False, slots=False)
class SharedPass:
    """An encoder of this run, and encoders of other runs on the same backbone that share its forward passes."""

    encoder: Encoder
    others: list[Encoder] = attrs.field(factory=list, init=False)
    """Encoders of the other runs."""

    def add(self, recipe: EncoderRecipe, seed: int) -> None:
        """Build the encoder of another run on the same backbone, with `seed` for its head."""
        recipe = self_contained(recipe)
        engine, backbone = self.encoder.engine, self.encoder.backbone
        engine.seed(seed)
        placed = engine.assemble(backbone, recipe.pooler, recipe.head)
        self.others.append(Encoder(recipe, engine, backbone, placed).fit_transform())

    @cached_property
    def space(self) -> str | None:
        """Fingerprint of the encoder; None if a component has no fingerprint."""
        return fingerprint_of(self.encoder)

    @cached_property
    def spaces(self) -> dict[str, Encoder]:
        """Fingerprints of the other encoders that differ from the encoder's -> an encoder that has it.

        Empty if the engine cannot encode with all of them in one pass.
        """
        together = self.encoder.placed.beside([other.placed for other in self.others])
        if together is None:
            return {}

        spaces = {}
        for other in self.others:
            space = fingerprint_of(other)
            if space is not None and space != self.space:
                spaces[space] = other
        return spaces


@attrs.define(eq=False)
class SharedCache(VectorCache):
    """Vector cache that stores the vectors of several encoders from one forward pass of their backbone."""

    passes: Sequence[SharedPass] = attrs.field(default=(), kw_only=True)

    def space(self, encoder: Encoder) -> str | None:
        """Return the fingerprint of an encoder, which is computed only once for the encoders of `passes`."""
        for shared in self.passes:
            if shared.encoder is encoder:
                return shared.space
        return super().space(encoder)

    def compute(
        self,
        space: str | None,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
        progress: Progress | None,
    ) -> NDArray[np.float32]:
        """Return an encoder's vectors of texts, and store the vectors of the encoders that share its pass."""
        for shared in self.passes:
            if space and shared.space == space:
                vectors = self._encode_together(shared, texts, progress)
                if vectors is not None:
                    return vectors
                break
        return encode(texts)

    def _encode_together(
        self,
        shared: SharedPass,
        texts: Sequence[str],
        progress: Progress | None,
    ) -> NDArray[np.float32] | None:
        """Compute the vectors of all encoders on a backbone in one pass; return those of the run's encoder.

        The vectors of the other encoders are stored. Return None if the run's encoder must encode alone: there is
        nothing to store for others, the pass has failed, such as for lack of memory, or a vector of the run's
        encoder is not finite, which its own pass reports.
        """
        import numpy as np

        digest = list_digest(texts)
        others = self._without_vectors(shared, digest, len(texts))
        if not others:
            return None
        placed = shared.encoder.placed.beside(
            [other.placed for other in others.values()]
        )
        if placed is None:
            return None

        encoder = attrs.evolve(shared.encoder, placed=placed)
        try:
            vectors: NDArray[np.float32] = encoder.encode(texts, progress=progress)
        except Exception as error:  # noqa: BLE001 - an error of another encoder is reported by its own run
            self.say(
                f"vectors of {len(others) + 1} encoders cannot come from one pass: {error}"
            )
            return None

        start = width = shared.encoder.width
        for space, other in others.items():
            of_other = vectors[:, start : start + other.width]
            # A pass of several encoders is not checked. That of this one alone will be, in its run.
            if np.isfinite(of_other).all():
                self.keep(space, digest, of_other)
            start += other.width

        of_encoder = np.ascontiguousarray(vectors[:, :width])
        if not np.isfinite(of_encoder).all():
            return None
        return of_encoder

    def _without_vectors(
        self, shared: SharedPass, digest: str, count: int
    ) -> dict[str, Encoder]:
        """Return the other encoders whose vectors of a list of `count` texts are not stored, by fingerprint.

        Encoders are left out whose vectors would exceed the size of the cache, or `MOST_SHARED_BYTES`.
        """
        if not self.writes:
            return {}
        others = {}
        left = min(self.limit, MOST_SHARED_BYTES) - _bytes_of(shared.encoder, count)
        for space, other in shared.spaces.items():
            size = _bytes_of(other, count)
            if size <= left and not self.path(space, digest).exists():
                others[space] = other
                left -= size
        return others


def _bytes_of(encoder: Encoder, count: int) -> int:
    """Return the number of bytes of the float32 vectors of `count` texts."""
    return 4 * count * encoder.width
