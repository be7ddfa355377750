"""Shared forward passes for cells that encode the same texts with the same backbone."""

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
"""`id` of a placed encoder -> it, kept alive so that its id is not reused, and its fingerprint."""

TOGETHER = 2**30
"""Maximum size in bytes of the vectors of one shared pass; further encoders need another pass."""


def can_share(a: Recipe, b: Recipe) -> bool:
    """Whether one pass through the backbone gives bit-identical vectors for both recipes.

    They differ in nothing but what comes after the backbone: pooler, head, evaluators. Seeds may differ where
    all weights come from files.
    """
    for recipe in (a, b):
        if recipe.stage or not recipe.run.cache:
            return False
        if any(table.traits.no_run for table in recipe.tables.values()):
            return False
    if a.runtime != b.runtime or list(a.encoders) != list(b.encoders):
        return False
    if not all(
        _have_same_states(a.encoders[name], b.encoders[name]) for name in a.encoders
    ):
        return False
    if is_from_files(a):
        return True
    # Random weights depend on the seed, and a trained tokenizer depends on the texts of the evaluations.
    return a.run.seed == b.run.seed and a.evaluate == b.evaluate


def _have_same_states(a: EncoderRecipe, b: EncoderRecipe) -> bool:
    """Whether both backbones give the same states for the same texts, and a pass can be for both."""
    # Texts of a transform would be encoded once for each recipe, and again in its own run.
    if _is_fitted_on_texts(a) or _is_fitted_on_texts(b):
        return False
    # The pass is over the tokens of one prompt.
    if (
        len(a.prompts) != 1
        or a.resolved_prompts != b.resolved_prompts
        or a.task_prompts
        or b.task_prompts
    ):
        return False
    return (
        a.backbone == b.backbone
        and a.max_length == b.max_length
        and _heeded(a) == _heeded(b)
    )


def _is_fitted_on_texts(encoder: EncoderRecipe) -> bool:
    transform = encoder.head.transform
    return transform is not None and type(transform).texts is not Transform.texts


def _heeded(encoder: EncoderRecipe) -> frozenset[str]:
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
    """Return a store for a run whose passes also give the vectors of other runs' encoders.

    Recipes of `others` that cannot share are skipped; `warn` reports those whose encoder cannot be built.
    What is built is left in `kept`, and what is there already is not built again.
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
                encoder = None
                reason = reason_of(error)
                warn(
                    f"`{name}` of `{other.run.name}` cannot be encoded in the same pass: {reason}"
                )
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
    """Encoders that runs of one process leave to those that come after them; none of them is trained.

    Where recipes share passes, one built backbone serves all their runs, which give the same vectors and save
    the same files as if each had built its own.
    """

    fingerprints: Fingerprints = attrs.field(factory=dict, init=False)

    _built: dict[int, tuple[Recipe, int, Mapping[str, Encoder]]] = attrs.field(
        factory=dict, init=False
    )
    """`id` of a recipe -> it, the engine's token budget before the first pass, and its encoders."""

    _saved: dict[int, tuple[BuiltBackbone, Path]] = attrs.field(
        factory=dict, init=False
    )
    """`id` of a backbone -> it, and a saved encoder that has it."""

    def add(self, recipe: Recipe, encoders: Mapping[str, Encoder]) -> None:
        """Keep the encoders of a recipe that have not encoded yet."""
        budget = next(iter(encoders.values())).engine.token_budget
        self._built[id(recipe)] = recipe, budget, encoders

    def built(self, recipe: Recipe) -> Mapping[str, Encoder]:
        """Return the encoders of a recipe; none if they were not kept, or would not encode as new ones do."""
        _, budget, encoders = self._built.get(id(recipe), (recipe, 0, {}))
        # An engine that has halved a batch goes on with small ones, which changes the last bits of vectors.
        if any(encoder.engine.token_budget != budget for encoder in encoders.values()):
            return {}
        for encoder in encoders.values():
            _, encoder.placed.twin = self._saved.get(id(encoder.backbone), (None, None))
        return encoders

    def saved(self, recipe: Recipe, run: Path) -> None:
        """Note that a run has saved the encoders of a recipe in its directory."""
        _, _, encoders = self._built.get(id(recipe), (recipe, 0, {}))
        for name, directory in saved_encoders(run, encoders).items():
            backbone = encoders[name].backbone
            self._saved[id(backbone)] = backbone, directory


@attrs.define(eq=False)
class SharedCache(VectorCache):
    """A cache of vectors in which one pass through a backbone fills the spaces of several encoders."""

    passes: Sequence[SharedBackbone] = attrs.field(default=(), kw_only=True)

    def space(self, encoder: Encoder) -> EncoderFingerprint | None:
        """Return what determines the vectors of an encoder; weights of those in `passes` are hashed once."""
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
        """Return the vectors of texts for one encoder, and keep those of the encoders that share its pass."""
        for shared in self.passes:
            if space and shared.space == space:
                vectors = self._encode_together(shared, texts, progress)
                return encode(texts) if vectors is None else vectors
        return encode(texts)

    def _encode_together(
        self, shared: SharedBackbone, texts: Sequence[str], progress: Progress | None
    ) -> NDArray[np.float32] | None:
        """Encode for the other encoders too and keep their vectors; None if none needs to be kept."""
        import numpy as np

        digest = list_digest(texts)
        bytes_of_a_dimension = 4 * len(texts)
        width = shared.encoder.width
        size = HEADER_SIZE + bytes_of_a_dimension * width
        if not self.writes or size > self.limit:
            return None

        chosen = []
        for space, encoder in shared.spaces:
            size_with_other = size + HEADER_SIZE + bytes_of_a_dimension * encoder.width
            if (
                size_with_other > min(self.limit, TOGETHER)
                or self.path(space, digest).exists()
            ):
                continue
            chosen.append((space, encoder))
            size = size_with_other
        if not chosen:
            return None
        try:
            vectors = shared.encode(texts, [encoder for _, encoder in chosen], progress)
        except Exception as error:  # noqa: BLE001 - what is wrong with another encoder is for its own run to say
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
    """Encoders whose vectors come from another encoder's passes; no weights change."""

    encoder: Encoder
    fingerprints: Fingerprints = attrs.field(factory=dict)
    """Fingerprints that earlier runs have computed, and those computed here."""
    others: list[Encoder] = attrs.field(factory=list, init=False)

    def add(self, recipe: EncoderRecipe, seed: int) -> Encoder | None:
        """Add the encoder of a recipe, built with this head seed on the same backbone, and return it.

        Do nothing if the engine cannot encode for several encoders at once, or the vectors are of tokens.
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
        return (
            self.encoder.placed.beside([encoder.placed for encoder in others])
            if others
            else None
        )

    @property
    def space(self) -> EncoderFingerprint | None:
        """Fingerprint of the encoder, or None if a part cannot report it."""
        return self._spaces[0]

    @cached_property
    def _spaces(self) -> list[EncoderFingerprint | None]:
        """Fingerprint of the encoder, and of the others if the engine can guarantee identical bits."""
        encoders = [self.encoder]
        together = self._place_together(self.others)
        if together is not None:
            encoders += self.others

        new = [
            encoder
            for encoder in encoders
            if id(encoder.placed) not in self.fingerprints
        ]
        weights: Sequence[str | None] = [None] * len(encoders)
        if together is not None and new:
            # The engine hashes the weights of the backbone once for all of them.
            weights = together.fingerprints() or weights
        for encoder, digest in zip(encoders, weights, strict=True):
            if encoder in new:
                self.fingerprints[id(encoder.placed)] = (
                    encoder.placed,
                    fingerprint_of(encoder, digest),
                )
        return [self.fingerprints[id(encoder.placed)][1] for encoder in encoders]

    @cached_property
    def spaces(self) -> list[tuple[EncoderFingerprint, Encoder]]:
        """Fingerprint and encoder of each of the others with a distinct one; of several, the last one."""
        own_space, *spaces = self._spaces
        if own_space is None or not spaces:
            return []
        distinct = {}
        for space, encoder in zip(spaces, self.others, strict=True):
            if space is not None and space.name != own_space.name:
                distinct[space.name] = space, encoder
        return list(distinct.values())

    def encode(
        self,
        texts: Sequence[str],
        others: Sequence[Encoder],
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Return the encoder's own vectors and, concatenated along the width, those of some of `others`."""
        placed = self._place_together(others)
        if placed is None:
            raise RunError("the engine has one pass for all of them, and none for some")
        return attrs.evolve(self.encoder, placed=placed).encode(texts, progress)
