"""Forward passes that runs share: one pass of a backbone gives the vectors of several poolers and heads.

When a run of a study encodes texts, the vectors that later runs need of these texts are computed and stored, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs
from sentbed import Encoder, RunError
from sentbed.helpers import reason_of
from sentbed.protocols import (
    BuiltBackbone,
    EncoderRecipe,
    PlacedEncoder,
    Recipe,
    Transform,
    VectorStore,
)
from sentbed.tools import Progress, head_seed, saved_encoders, self_contained
from sentbed_common import fingerprint_of
from sentbed_workbench.vector_cache import HEADER_SIZE, VectorCache, list_digest

from sentbed_studies.cell_keys import is_from_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Fingerprints: TypeAlias = dict[int, tuple[PlacedEncoder, str | None]]
"""`id` of a placed encoder -> the placed encoder and its fingerprint. The encoder is kept so that no other object
gets its id."""

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
    kept: KeptEncoders | None = None,
) -> VectorStore:
    """Return a vector store for a run that also computes and stores vectors for other runs, in the same passes.

    If `store` is not sentbed's vector cache, it is returned itself.

    Args:
        recipe: Recipe of the run.
        others: Recipes of the other runs; those that cannot share are skipped.
        store: Vector store of the run.
        encoders: Encoders of the run, by name.
        warn: Gets a line for each encoder of `others` that cannot be built.
        kept: Encoders that earlier runs of this process have built, to which the encoders built here are added;
            None if there were no such runs.
    """
    if kept is None:
        kept = KeptEncoders()
    kept.add(recipe, encoders)
    backbones = {}
    for name, encoder in encoders.items():
        backbones[name] = SharedBackbone(encoder, kept.fingerprints)

    for other in others:
        if other is recipe or not can_share(recipe, other):
            continue

        kept_encoders = kept.built(other)
        if kept_encoders:
            for name, shared in backbones.items():
                shared.others.append(kept_encoders[name])
            continue

        built = {}
        for name, shared in backbones.items():
            try:
                added = shared.add(other.encoders[name], head_seed(other, name))
            except Exception as error:  # noqa: BLE001 - another recipe's parts must not stop this run
                reason = reason_of(error)
                warn(
                    f"`{name}` of `{other.run.name}` cannot be encoded in the same pass: {reason}"
                )
                continue
            if added is not None:
                built[name] = added
        if len(built) == len(backbones):
            kept.add(other, built)

    if not isinstance(store, VectorCache):
        return store
    return SharedCache(
        store.root,
        store.limit,
        store.say,
        store.taken,
        store.encoded,
        backbones=list(backbones.values()),
    )


@attrs.frozen(eq=False)
class _Built:
    """Encoders of a recipe."""

    recipe: Recipe
    token_budget: int
    """Token budget of the engine before the encoders encoded anything."""
    encoders: Mapping[str, Encoder]


@attrs.define(eq=False)
class KeptEncoders:
    """Untrained encoders that later runs of the same process use again, instead of building their own.

    Recipes that share passes use the same backbone object. Their runs compute the same vectors and save the same
    files as with encoders of their own.
    """

    fingerprints: Fingerprints = attrs.field(factory=dict, init=False)

    _built: dict[int, _Built] = attrs.field(factory=dict, init=False)
    """`id` of a recipe -> its encoders."""

    _saved: dict[int, tuple[BuiltBackbone, Path]] = attrs.field(
        factory=dict, init=False
    )
    """`id` of a backbone -> the backbone, and the directory of a saved encoder that has this backbone."""

    def add(self, recipe: Recipe, encoders: Mapping[str, Encoder]) -> None:
        """Keep the encoders of a recipe; they must not have encoded anything yet."""
        budget = next(iter(encoders.values())).engine.token_budget
        self._built[id(recipe)] = _Built(recipe, budget, encoders)

    def built(self, recipe: Recipe) -> Mapping[str, Encoder]:
        """Return the kept encoders of a recipe; empty if there are none, or if new ones would encode differently.

        An engine that has run out of memory uses smaller batches, which changes the last bits of vectors.
        """
        built = self._built.get(id(recipe))
        if built is None:
            return {}

        for encoder in built.encoders.values():
            if encoder.engine.token_budget != built.token_budget:
                return {}

        for encoder in built.encoders.values():
            _, encoder.placed.twin = self._saved.get(id(encoder.backbone), (None, None))
        return built.encoders

    def saved(self, recipe: Recipe, run: Path) -> None:
        """Record that a run has saved the encoders of a recipe in its directory."""
        built = self._built.get(id(recipe))
        if built is None:
            return
        for name, directory in saved_encoders(run, built.encoders).items():
            backbone = built.encoders[name].backbone
            self._saved[id(backbone)] = backbone, directory


@attrs.define(eq=False)
class SharedCache(VectorCache):
    """Vector cache that stores the vectors of several encoders from one forward pass of their backbone."""

    backbones: Sequence[SharedBackbone] = attrs.field(default=(), kw_only=True)

    def space(self, encoder: Encoder) -> str | None:
        """Return the fingerprint of an encoder, which is computed only once for the encoders of `backbones`."""
        for shared in self.backbones:
            if shared.encoder is encoder and shared.space is not None:
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
        for shared in self.backbones:
            if space and shared.space == space:
                vectors = self._encode_together(shared, texts, progress)
                if vectors is not None:
                    return vectors
                break
        return encode(texts)

    def _encode_together(
        self,
        shared: SharedBackbone,
        texts: Sequence[str],
        progress: Progress | None,
    ) -> NDArray[np.float32] | None:
        """Compute the vectors of all encoders on a backbone in one pass; return those of the run's encoder.

        The vectors of the other encoders are stored. Return None if the run's encoder must encode alone:
        the cache cannot be written, all other vectors are stored already or too large, or the pass has failed.
        """
        import numpy as np

        digest = list_digest(texts)
        bytes_per_dimension = np.dtype(np.float32).itemsize * len(texts)
        width = shared.encoder.width
        size = HEADER_SIZE + bytes_per_dimension * width
        if not self.writes or size > self.limit:
            return None

        chosen = []
        for space, encoder in shared.spaces:
            size_with_other = size + HEADER_SIZE + bytes_per_dimension * encoder.width
            if size_with_other > min(self.limit, MOST_SHARED_BYTES):
                continue
            if self.path(space, digest).exists():
                continue
            chosen.append((space, encoder))
            size = size_with_other

        if not chosen:
            return None

        others = [encoder for _, encoder in chosen]
        try:
            vectors = shared.encode(texts, others, progress)
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
    """An encoder of this run, and encoders of other runs on the same backbone that share its forward passes."""

    encoder: Encoder
    fingerprints: Fingerprints = attrs.field(factory=dict)
    """Fingerprints of encoders that earlier runs or this run have computed."""
    others: list[Encoder] = attrs.field(factory=list, init=False)
    """Encoders of the other runs."""

    def add(self, recipe: EncoderRecipe, seed: int) -> Encoder | None:
        """Build an encoder of another run on the same backbone, with `seed` for its head; add and return it.

        Return None if the encoder has token vectors, or if the engine cannot compute the vectors of several
        encoders in one pass.
        """
        if recipe.pooler.output == "tokens":
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
        """Return a placed encoder whose vectors are those of the encoder and of `others`, from one pass.

        Return None if there are no others, or if the engine cannot do this.
        """
        if not others:
            return None
        return self.encoder.placed.beside([encoder.placed for encoder in others])

    @property
    def space(self) -> str | None:
        """Fingerprint of the encoder; None if a component has no fingerprint."""
        return self._spaces[0]

    @cached_property
    def _spaces(self) -> list[str | None]:
        """Fingerprint of the encoder, then those of the other encoders if they can share its passes."""
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
    def spaces(self) -> list[tuple[str, Encoder]]:
        """Distinct fingerprints of the other encoders, each with the last encoder that has it.

        The fingerprint of the run's encoder is left out.
        """
        space_of_encoder, *spaces = self._spaces
        if space_of_encoder is None or not spaces:
            return []

        distinct = {}
        for space, encoder in zip(spaces, self.others, strict=True):
            if space is not None and space != space_of_encoder:
                distinct[space] = encoder
        return list(distinct.items())

    def encode(
        self,
        texts: Sequence[str],
        others: Sequence[Encoder],
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """Return the vectors of the encoder and of `others`, concatenated along the width.

        `others` are some of the encoders that were added. Raises `RunError` if the engine cannot encode them.
        """
        placed = self._place_together(others)
        if placed is None:
            raise RunError("the engine has one pass for all of them, and none for some")
        encoder = attrs.evolve(self.encoder, placed=placed)
        vectors: NDArray[np.float32] = encoder.encode(texts, progress=progress)
        return vectors
