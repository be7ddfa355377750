"""Forward passes that cells share if they encode the same texts with the same backbone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed import Encoder, RunError
from sentbed.helpers import reason_of
from sentbed.protocols import BuiltBackbone, PlacedEncoder, Transform, VectorStore
from sentbed.tools import (
    EncoderRecipe,
    Progress,
    Recipe,
    head_seed,
    saved_encoders,
    self_contained,
)
from sentbed_common import EncoderFingerprint, fingerprint_of
from sentbed_workbench.vector_cache import HEADER_SIZE, VectorCache, list_digest

from sentbed_studies.cell_keys import is_from_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Fingerprints: TypeAlias = dict[int, tuple[PlacedEncoder, EncoderFingerprint | None]]
"""`id` of a placed encoder -> the placed encoder, kept so that its id is not reused, and its fingerprint."""

TOGETHER = 2**30
"""Maximum size in bytes of the vectors of one shared pass; further encoders need another pass."""


def can_share(a: Recipe, b: Recipe) -> bool:
    """Whether one forward pass of the backbone gives bit-identical vectors for both recipes.

    That is the case if they differ only in what follows the backbone: pooler, head and evaluators. Seeds may
    differ if all weights come from files.
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
    """Whether one pass gives the token states of both encoders for the same texts."""
    # The texts of a transform would be encoded here for each recipe, and again in its own run.
    if _is_fitted_on_texts(a) or _is_fitted_on_texts(b):
        return False

    # A pass encodes the texts with one prompt.
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
    """Return the pooler's needs that change what the backbone builds or computes."""
    needs, heeds = encoder.pooler.traits.needs, encoder.backbone.traits.heeds
    return needs if heeds is None else needs & heeds


def share_passes(
    recipe: Recipe,
    others: Sequence[Recipe],
    store: VectorStore,
    encoders: Mapping[str, Encoder],
    warn: Callable[[str], None],
    kept: KeptEncoders | None = None,
) -> VectorStore:
    """Return a vector store for a run, whose forward passes also give the vectors of other runs' encoders.

    Args:
        recipe: Recipe of the run.
        others: Recipes of the other runs; those that cannot share are skipped.
        store: The run's own store.
        encoders: The run's encoders.
        warn: Gets a line for each encoder of `others` that cannot be built.
        kept: Encoders that were built before, to which those that are built here are added.
    """
    if kept is None:
        kept = KeptEncoders()
    kept.add(recipe, encoders)
    passes = {
        name: SharedBackbone(encoder, kept.fingerprints)
        for name, encoder in encoders.items()
    }
    for other in others:
        if other is recipe or not can_share(recipe, other):
            continue
        built = dict(kept.built(other))
        if built:
            for name, shared in passes.items():
                shared.others.append(built[name])
            continue
        for name, shared in passes.items():
            try:
                encoder = shared.add(other.encoders[name], head_seed(other, name))
            except Exception as error:  # noqa: BLE001 - another recipe's parts must not stop this run
                reason = reason_of(error)
                warn(
                    f"`{name}` of `{other.run.name}` cannot be encoded in the same pass: {reason}"
                )
                continue
            if encoder is not None:
                built[name] = encoder
        if len(built) == len(passes):
            kept.add(other, built)

    if not isinstance(store, VectorCache):
        return store
    return SharedCache(
        store.root,
        store.limit,
        store.say,
        store.taken,
        store.encoded,
        passes=list(passes.values()),
    )


@attrs.define(eq=False)
class KeptEncoders:
    """Untrained encoders that later runs of the same process use again.

    Recipes that share passes use one backbone; their runs compute the same vectors and save the same files as
    if each had built its own.
    """

    fingerprints: Fingerprints = attrs.field(factory=dict, init=False)

    _built: dict[int, tuple[Recipe, int, Mapping[str, Encoder]]] = attrs.field(
        factory=dict, init=False
    )
    """`id` of a recipe -> the recipe, the engine's token budget before the first pass, and the encoders."""

    _saved: dict[int, tuple[BuiltBackbone, Path]] = attrs.field(
        factory=dict, init=False
    )
    """`id` of a backbone -> the backbone, and the directory of a saved encoder with it."""

    def add(self, recipe: Recipe, encoders: Mapping[str, Encoder]) -> None:
        """Keep the encoders of a recipe, before they encode."""
        budget = next(iter(encoders.values())).engine.token_budget
        self._built[id(recipe)] = recipe, budget, encoders

    def built(self, recipe: Recipe) -> Mapping[str, Encoder]:
        """Return the encoders of a recipe; none if they were not kept, or would encode unlike new ones."""
        _, budget, encoders = self._built.get(id(recipe), (recipe, 0, {}))
        for encoder in encoders.values():
            # An engine that ran out of memory has smaller batches now, which changes the last bits of vectors.
            if encoder.engine.token_budget != budget:
                return {}
        for encoder in encoders.values():
            _, encoder.placed.twin = self._saved.get(id(encoder.backbone), (None, None))
        return encoders

    def saved(self, recipe: Recipe, run: Path) -> None:
        """Record that a run has saved the encoders of a recipe in its directory."""
        _, _, encoders = self._built.get(id(recipe), (recipe, 0, {}))
        for name, directory in saved_encoders(run, encoders).items():
            backbone = encoders[name].backbone
            self._saved[id(backbone)] = backbone, directory


@attrs.define(eq=False)
class SharedCache(VectorCache):
    """Vector cache that stores the vectors of several encoders from one forward pass of their backbone."""

    passes: Sequence[SharedBackbone] = attrs.field(default=(), kw_only=True)

    def space(self, encoder: Encoder) -> EncoderFingerprint | None:
        """Return the fingerprint of an encoder; the encoders of `passes` have theirs already."""
        for shared in self.passes:
            if shared.encoder is encoder and shared.space is not None:
                return shared.space
        return super().space(encoder)

    def compute(
        self,
        space: EncoderFingerprint | None,
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
        self, shared: SharedBackbone, texts: Sequence[str], progress: Progress | None
    ) -> NDArray[np.float32] | None:
        """Return an encoder's vectors, and store the vectors of the other encoders, from one forward pass.

        Return None if none of the others needs to be encoded, or the pass failed.
        """
        import numpy as np

        digest = list_digest(texts)
        bytes_per_dimension = 4 * len(texts)
        width = shared.encoder.width
        size = HEADER_SIZE + bytes_per_dimension * width
        if not self.writes or size > self.limit:
            return None

        chosen = []
        for space, encoder in shared.spaces:
            size_with_other = size + HEADER_SIZE + bytes_per_dimension * encoder.width
            if size_with_other > min(self.limit, TOGETHER):
                continue
            if self.path(space, digest).exists():
                continue
            chosen.append((space, encoder))
            size = size_with_other

        if not chosen:
            return None

        try:
            vectors = shared.encode(texts, [encoder for _, encoder in chosen], progress)
        except Exception as error:  # noqa: BLE001 - an error of another encoder is reported by its own run
            self.say(
                f"vectors of {len(chosen) + 1} encoders cannot come from one pass: {error}"
            )
            return None

        start = width
        for space, encoder in chosen:
            self.keep(space, digest, vectors[:, start : start + encoder.width])
            start += encoder.width
        return np.ascontiguousarray(vectors[:, :width])


@attrs.define(eq=False, slots=False)
class SharedBackbone:
    """An encoder, and others on the same backbone whose vectors its forward passes also give."""

    encoder: Encoder
    fingerprints: Fingerprints = attrs.field(factory=dict)
    """Fingerprints that were computed by earlier runs or here."""
    others: list[Encoder] = attrs.field(factory=list, init=False)

    def add(self, recipe: EncoderRecipe, seed: int) -> Encoder | None:
        """Build the encoder of a recipe on the same backbone, with `seed` for its head; add and return it.

        Return None if the engine cannot encode for several encoders at once, or the vectors are of tokens.
        """
        if recipe.pooler.traits.output == "tokens":
            return None

        if self.encoder.placed.beside(()) is None:
            return None

        recipe = self_contained(recipe)
        engine, backbone = self.encoder.engine, self.encoder.backbone
        engine.seed(seed)
        placed = engine.assemble(backbone, recipe.pooler, recipe.head)
        encoder = Encoder(recipe, engine, backbone, placed).fit_transform()
        self.others.append(encoder)
        return encoder

    def _place_together(self, others: Sequence[Encoder]) -> PlacedEncoder | None:
        """Return an encoder of all these vectors in one pass; None without others, or if the engine has none."""
        if not others:
            return None
        return self.encoder.placed.beside([encoder.placed for encoder in others])

    @property
    def space(self) -> EncoderFingerprint | None:
        """Fingerprint of the encoder, or None if a part cannot report it."""
        return self._spaces[0]

    @cached_property
    def _spaces(self) -> list[EncoderFingerprint | None]:
        """Fingerprint of the encoder, and of the others if the engine can encode them with identical bits."""
        encoders = [self.encoder]
        together = self._place_together(self.others)
        if together is not None:
            encoders += self.others

        new = {id(encoder.placed) for encoder in encoders} - self.fingerprints.keys()
        weights: Sequence[str | None] = [None] * len(encoders)
        if together is not None and new:
            # The engine hashes the weights of the backbone once for all encoders.
            weights = together.fingerprints() or weights
        for encoder, digest in zip(encoders, weights, strict=True):
            placed = encoder.placed
            if id(placed) in new:
                self.fingerprints[id(placed)] = placed, fingerprint_of(encoder, digest)
        return [self.fingerprints[id(encoder.placed)][1] for encoder in encoders]

    @cached_property
    def spaces(self) -> list[tuple[EncoderFingerprint, Encoder]]:
        """Distinct fingerprints of the other encoders, each with the last encoder that has it."""
        space_of_encoder, *spaces = self._spaces
        if space_of_encoder is None or not spaces:
            return []

        distinct = {}
        for space, encoder in zip(spaces, self.others, strict=True):
            if space is not None and space.name != space_of_encoder.name:
                distinct[space.name] = space, encoder
        return list(distinct.values())

    def encode(
        self,
        texts: Sequence[str],
        others: Sequence[Encoder],
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Return the vectors of the encoder and of `others`, some of its own, concatenated along the width."""
        placed = self._place_together(others)
        if placed is None:
            raise RunError("the engine has one pass for all of them, and none for some")
        return attrs.evolve(self.encoder, placed=placed).encode(texts, progress)
