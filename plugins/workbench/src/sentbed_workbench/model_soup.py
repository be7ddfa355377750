"""Model soups: averages of the weights of saved encoders (Wortsman et al., 2022)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import Encoder, ModelError, RunError
from sentbed.helpers import sha256, write_atomic, write_directory, write_sums
from sentbed.protocols import VectorStore
from sentbed.tools import ENCODER_FILE, problem_of_test_data, unstructure

from sentbed_workbench.evaluate import Request, evaluate_loaded, request_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PARENTS_FILE = "parents.json"
"""File in the directory of an averaged encoder that lists its parents."""


@attrs.frozen
class Parent:
    """An encoder that was averaged, or left out."""

    path: str
    weights: str
    """SHA-256 over the SHA-256 of its files with weights."""
    score: float | None = None
    """Primary score of this encoder alone; None for a uniform average."""
    kept: bool = True
    """Whether it is part of the average."""


@attrs.frozen
class Soup:
    """Record of an average of encoders."""

    method: str
    """`uniform` or `greedy`."""
    parents: tuple[Parent, ...]
    score: float | None = None
    """Primary score of the average, for `greedy`."""
    evaluator: Mapping[str, Any] = attrs.field(factory=dict)
    """The evaluator as a table of a recipe, for `greedy`."""


def make_soup(
    output: str | Path,
    encoders: Sequence[str | Path],
    evaluator: str | None = None,
    overrides: Sequence[str] = (),
    store: VectorStore | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Soup:
    """Write the mean of the encoders' weights to the new directory `output`; return its record.

    `encoders` are directories of encoders or of runs with one encoder, which must have started from the same
    weights. Without an `evaluator` all are averaged. With one, the average is greedy (Wortsman et al., 2022,
    recipe 1): encoders are added in the order of their scores, the best first, and each is kept if the
    average with it scores at least as well as before. `overrides` set the evaluator's fields, or
    `runtime.FIELD`. Means are computed in fp64, with one encoder at a time in memory beside them.

    Raises:
        RunError: if `output` is not new, or fewer than two encoders are given.
        ModelError: if encoders differ in recipe, tokenizer or shapes of weights, or have adapters: the mean of
            products is not the product of means.
        RecipeError: if the evaluator's fields are wrong, or it may use test data.
    """
    target = Path(output)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunError(f"`{output}` is not new; average into a new directory")
    if len(encoders) < 2:
        raise RunError(
            f"an average needs several encoders, and {len(encoders)} is named; name two or more"
        )
    request = None
    if evaluator:
        request = request_of(evaluator, overrides)
        if not request.evaluate.traits.development:
            raise RunError(
                problem_of_test_data(
                    "a greedy average keeps what scores best", request.evaluate
                )
            )

    places = [_encoder_in(Path(path)) for path in encoders]
    mean = _Mean(_load(places[0], request))
    if request is None:
        soup = _uniform_soup(mean, encoders, places)
    else:
        soup = _greedy_soup(
            mean, encoders, places, _Scorer(request, store, say), str(output)
        )

    def fill(directory: Path) -> None:
        mean.base.save(directory)
        record = {"schema": 1, **attrs.asdict(soup)}
        write_atomic(directory / PARENTS_FILE, json.dumps(record, indent=2) + "\n")
        write_sums(directory)

    write_directory(target.resolve(), fill)
    return soup


@attrs.frozen
class _Scorer:
    """Scores encoders with an evaluator; `say` prints the scores."""

    request: Request
    store: VectorStore | None
    say: Callable[[str], None]

    def score(self, encoder: Encoder, name: str) -> float:
        """Return the primary score of an encoder."""
        return evaluate_loaded(encoder, self.request, name, self.store).primary


def _uniform_soup(
    mean: _Mean, encoders: Sequence[str | Path], places: Sequence[Path]
) -> Soup:
    """Average all encoders."""
    parents = []
    for path, place in zip(encoders, places, strict=True):
        loaded = _load_alike(mean.base, place, places[0], None)
        mean.add(loaded)
        parents.append(Parent(str(path), _weights_hash(place)))
    mean.put()
    return Soup("uniform", tuple(parents))


def _greedy_soup(
    mean: _Mean,
    encoders: Sequence[str | Path],
    places: Sequence[Path],
    scorer: _Scorer,
    name: str,
) -> Soup:
    """Average the encoders with which the average scores at least as well as without them."""
    request, say = scorer.request, scorer.say
    parents = []
    scores = []
    for path, place in zip(encoders, places, strict=True):
        loaded = _load_alike(mean.base, place, places[0], request)
        score = scorer.score(loaded, str(path))
        say(f"{path}: {score:.2f}")
        scores.append(score)
        parents.append(Parent(str(path), _weights_hash(place), score))

    best: float | None = None
    for number in sorted(range(len(parents)), key=lambda index: -scores[index]):
        # Loaded again: there is memory for one beside the mean.
        before = mean.add(_load(places[number], request))
        mean.put()
        score = scorer.score(mean.base, name)
        if best is None or score >= best:
            best = score
            say(f"with {encoders[number]}: {score:.2f}")
        else:
            say(f"with {encoders[number]}: {score:.2f}, left out")
            mean.take_back(before)
            parents[number] = attrs.evolve(parents[number], kept=False)

    mean.put()
    return Soup("greedy", tuple(parents), best, unstructure(request.evaluate))


class _Mean:
    """Running mean of the weights of encoders, in fp64; `put` loads it into the first encoder's module."""

    def __init__(self, base: Encoder) -> None:
        self.base = base
        self.count = 0
        self.sums: dict[str, Tensor] = {}

    def add(self, encoder: Encoder) -> dict[str, Tensor]:
        """Add the weights of an encoder; return the sums without it."""
        before = self.sums
        sums = {}
        for name, value in encoder.placed.module.state_dict().items():
            if value.is_floating_point():
                sums[name] = value.double() + before.get(name, 0)
            else:
                sums[name] = value.clone()
        self.sums = sums
        self.count += 1
        return before

    def take_back(self, sums: dict[str, Tensor]) -> None:
        """Undo the last `add`, which returned these sums."""
        self.sums = sums
        self.count -= 1

    def put(self) -> None:
        """Load the mean into the module of `base`; integers are the same in all encoders."""
        means = {}
        for name, value in self.sums.items():
            means[name] = value
            if value.is_floating_point():
                means[name] = value / self.count
        self.base.placed.module.load_state_dict(means)
        self.base.placed.weights_changed()  # type: ignore[attr-defined] # of all engines on PyTorch


def _encoder_in(path: Path) -> Path:
    """Return the directory of the encoder in a run directory, or `path` itself; it is not checked here."""
    inside = path / "encoder"
    if inside.is_dir() and not (path / ENCODER_FILE).is_file():
        return inside
    return path


def _load_alike(
    base: Encoder, place: Path, first: Path, request: Request | None
) -> Encoder:
    """Load the encoder in `place`. Raises `ModelError` if it cannot be averaged with `base`, from `first`."""
    encoder = base
    if place != first:
        encoder = _load(place, request)
        _require_alike(base, encoder, first, place)
    return encoder


def _load(place: Path, request: Request | None) -> Encoder:
    runtime = None
    if request is not None:
        runtime = request.runtime
    encoder = Encoder.load(place, runtime)
    if encoder.placed.module is None:
        raise ModelError(
            "the runtime is not one of PyTorch, and has no weights to average; take `cpu`"
        )
    if encoder.placed.fitted_on is not None:
        raise ModelError(
            f"the encoder in `{place}` has a transform that was fitted to its vectors, and the mean of "
            "several fits none; average encoders of the recipe without `head.transform`"
        )
    merged = encoder.backbone.merged()
    if merged is not None and merged[0] != encoder.recipe.backbone:
        raise ModelError(
            f"the encoder in `{place}` has an adapter, and the mean of products is no product of means; "
            f"merge it (`sentbed export {place} NEW`), and average what that writes"
        )
    return encoder


def _require_alike(base: Encoder, other: Encoder, first: Path, place: Path) -> None:
    """Raise `ModelError` if two encoders differ in more than their weights."""
    base_table, other_table = unstructure(base.recipe), unstructure(other.recipe)
    for table in (base_table, other_table):
        # Origin of the weights before training.
        table["backbone"].pop("model", None)
        table["backbone"].pop("revision", None)

    key = _first_difference(base_table, other_table)
    if key is not None:
        raise ModelError(
            f"`{first}` and `{place}` differ in `{key}` ({base_table.get(key)!r} and "
            f"{other_table.get(key)!r}); average encoders of one recipe"
        )
    if base.backbone.tokenizer.fingerprint != other.backbone.tokenizer.fingerprint:
        raise ModelError(
            f"`{first}` and `{place}` have other tokenizers; average encoders of one vocabulary"
        )
    base_shapes, other_shapes = _shapes(base), _shapes(other)
    name = _first_difference(base_shapes, other_shapes)
    if name is not None:
        raise ModelError(
            f"`{name}` is {base_shapes.get(name)} in `{first}` and {other_shapes.get(name)} in `{place}`; "
            "average encoders that began from the same weights"
        )


def _first_difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> str | None:
    """Return the first key, in alphabetic order, whose values differ; None if there is none."""
    for key in sorted(a.keys() | b.keys()):
        if a.get(key) != b.get(key):
            return key
    return None


def _shapes(encoder: Encoder) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Return name -> shape and data type of each weight."""
    shapes = {}
    for name, value in encoder.placed.module.state_dict().items():
        shapes[name] = (tuple(value.shape), value.dtype)
    return shapes


def _weights_hash(place: Path) -> str:
    files = sorted(place.rglob("*.safetensors"))
    if not files:
        raise ModelError(
            f"`{place}` has no `.safetensors` file with weights; save the encoder again"
        )
    sums = {file.relative_to(place).as_posix(): sha256(file) for file in files}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
