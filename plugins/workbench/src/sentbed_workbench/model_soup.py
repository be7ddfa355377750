"""Model soups: averages of the weights of saved encoders (Wortsman et al., 2022)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import Encoder, ModelError, RunError
from sentbed.helpers import (
    score_text,
    sha256,
    write_atomic,
    write_directory,
    write_sums,
)
from sentbed.protocols import VectorStore
from sentbed.tools import ENCODER_FILE, plain, problem_of_test_data, unstructure

from sentbed_workbench.evaluate import Request, evaluate_loaded, request_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PARENTS_FILE = "parents.json"
"""File in the directory of an averaged encoder that lists its parents."""


@attrs.frozen
class Parent:
    """An encoder that was averaged, or tried and left out."""

    path: str
    weights: str
    """SHA-256 of the names and the SHA-256 of the files with weights."""
    score: float | None = None
    """Primary score of this encoder alone; None if the average is uniform. NaN is written as null."""
    kept: bool = True
    """Whether the encoder is part of the average."""


@attrs.frozen
class Soup:
    """Record of an average of encoders."""

    method: str
    """`uniform` or `greedy`."""
    parents: tuple[Parent, ...]
    score: float | None = None
    """Primary score of the average, if it is greedy."""
    evaluator: Mapping[str, Any] = attrs.field(factory=dict)
    """Recipe table of the evaluator, if the average is greedy."""


def make_soup(
    output: str | Path,
    encoders: Sequence[str | Path],
    evaluator: str | None = None,
    overrides: Sequence[str] = (),
    store: VectorStore | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Soup:
    """Write an encoder with the mean of the encoders' weights to the new directory `output`. Return its record.

    `encoders` are directories of encoders or of runs with one encoder. The encoders must have started from
    the same weights. Without an `evaluator`, all encoders are averaged. With an evaluator, the average is
    greedy (Wortsman et al., 2022, recipe 1): encoders are added in the order of their scores, the best first,
    and an encoder is kept if the average with it scores at least as well as the average without it. An encoder
    whose score is NaN is left out.
    `overrides` set the evaluator's fields, or `runtime.FIELD`. The mean is computed in fp64. Beside the mean, the
    first encoder and at most one other encoder are in memory at a time.

    Raises:
        RunError: if `output` exists and is not empty, if fewer than two encoders are given, if the evaluator may
            use test data, or if it gives no encoder a score.
        ModelError: if encoders differ in recipe, tokenizer or shapes of weights, or if they have adapters, since
            the mean of products is not the product of means.
        RecipeError: if the evaluator's fields are invalid.
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
            what = "a greedy average keeps what scores best"
            raise RunError(problem_of_test_data(what, request.evaluate))

    directories = [_encoder_directory(Path(path)) for path in encoders]
    mean = _Mean(_load(directories[0], request))
    if request is None:
        soup = _uniform_soup(mean, encoders, directories)
    else:
        scorer = _Scorer(request, store, say)
        soup = _greedy_soup(mean, encoders, directories, scorer, str(output))

    def fill(directory: Path) -> None:
        mean.base.save(directory)
        record = plain({"schema": 1, **attrs.asdict(soup)})
        write_atomic(directory / PARENTS_FILE, json.dumps(record, indent=2) + "\n")
        write_sums(directory)

    write_directory(target.resolve(), fill)
    return soup


@attrs.frozen
class _Scorer:
    """Evaluator of a greedy average."""

    request: Request
    store: VectorStore | None
    say: Callable[[str], None]
    """Function that prints a score."""

    def score(self, encoder: Encoder, name: str) -> float:
        """Return the primary score of an encoder, which is called `name` in the evaluation."""
        return evaluate_loaded(encoder, self.request, name, self.store).primary


def _uniform_soup(
    mean: _Mean,
    encoders: Sequence[str | Path],
    directories: Sequence[Path],
) -> Soup:
    """Average all encoders."""
    parents = []
    for path, directory in zip(encoders, directories, strict=True):
        loaded = _load_alike(mean.base, directory, directories[0], None)
        mean.add(loaded)
        parents.append(Parent(str(path), _weights_hash(directory)))
    mean.load_into_base()
    return Soup("uniform", tuple(parents))


def _greedy_soup(
    mean: _Mean,
    encoders: Sequence[str | Path],
    directories: Sequence[Path],
    scorer: _Scorer,
    name: str,
) -> Soup:
    """Average the encoders that do not lower the score when they are added to the average, the best one first.

    `name` is the name of the average in evaluations.
    """
    request, say = scorer.request, scorer.say
    parents = []
    scores = []
    for path, directory in zip(encoders, directories, strict=True):
        loaded = _load_alike(mean.base, directory, directories[0], request)
        score = scorer.score(loaded, str(path))
        say(f"{path}: {score_text(score)}")
        scores.append(score)
        kept = not math.isnan(score)
        parents.append(Parent(str(path), _weights_hash(directory), score, kept))

    with_score = [index for index, parent in enumerate(parents) if parent.kept]
    if not with_score:
        raise RunError(
            f"`{request.evaluate.name}` gives no encoder a score; look at the encoders, and at its data"
        )

    best: float | None = None
    for number in sorted(with_score, key=lambda index: -scores[index]):
        # The encoder is loaded again, since not all encoders are in memory.
        sums_without_it = mean.add(_load(directories[number], request))
        mean.load_into_base()
        score = scorer.score(mean.base, name)
        if best is None or score >= best:
            best = score
            say(f"with {encoders[number]}: {score:.2f}")
        else:
            say(f"with {encoders[number]}: {score:.2f}, left out")
            mean.undo_add(sums_without_it)
            parents[number] = attrs.evolve(parents[number], kept=False)

    mean.load_into_base()
    return Soup("greedy", tuple(parents), best, unstructure(request.evaluate))


class _Mean:
    """Running mean of the weights of encoders, in fp64."""

    def __init__(self, base: Encoder) -> None:
        self.base = base
        """Encoder into whose module the mean is loaded."""
        self.count = 0
        self.sums: dict[str, Tensor] = {}

    def add(self, encoder: Encoder) -> dict[str, Tensor]:
        """Add the weights of an encoder. Return the sums without them, for `undo_add`."""
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

    def undo_add(self, sums: dict[str, Tensor]) -> None:
        """Undo the last `add`, which returned these sums."""
        self.sums = sums
        self.count -= 1

    def load_into_base(self) -> None:
        """Load the mean into the module of `base`. Integers, which are equal in all encoders, are copied."""
        means = {}
        for name, value in self.sums.items():
            means[name] = value
            if value.is_floating_point():
                means[name] = value / self.count
        self.base.placed.module.load_state_dict(means)
        self.base.placed.weights_changed()  # type: ignore[attr-defined] # of all engines on PyTorch


def _encoder_directory(path: Path) -> Path:
    """Return the directory of the encoder if `path` is a run directory, else `path`."""
    inside = path / "encoder"
    if inside.is_dir() and not (path / ENCODER_FILE).is_file():
        return inside
    return path


def _load_alike(
    base: Encoder,
    directory: Path,
    base_directory: Path,
    request: Request | None,
) -> Encoder:
    """Load the encoder in a directory. Raises `ModelError` if it cannot be averaged with `base`."""
    if directory == base_directory:
        return base
    encoder = _load(directory, request)
    _require_alike(base, encoder, base_directory, directory)
    return encoder


def _load(directory: Path, request: Request | None) -> Encoder:
    """Load the encoder in a directory. Raises `ModelError` if its weights cannot be averaged."""
    runtime = None
    if request is not None:
        runtime = request.runtime
    encoder = Encoder.load(directory, runtime)
    if encoder.placed.module is None:
        raise ModelError(
            "the runtime is not one of PyTorch, and has no weights to average; take `cpu`"
        )
    if encoder.placed.fitted_on is not None:
        raise ModelError(
            f"the encoder in `{directory}` has a transform that was fitted to its vectors, and the mean of "
            "several fits none; average encoders of the recipe without `head.transform`"
        )

    merged = encoder.backbone.merged()
    if merged is not None and merged[0] != encoder.recipe.backbone:
        raise ModelError(
            f"the encoder in `{directory}` has an adapter, and the mean of products is no product of means; "
            f"merge it (`sentbed export {directory} NEW`), and average what that writes"
        )
    return encoder


def _require_alike(
    base: Encoder,
    other: Encoder,
    base_directory: Path,
    directory: Path,
) -> None:
    """Raise `ModelError` if two encoders differ in more than their weights."""
    base_table, other_table = unstructure(base.recipe), unstructure(other.recipe)
    for table in (base_table, other_table):
        # Encoders may name different origins of the same weights.
        table["backbone"].pop("model", None)
        table["backbone"].pop("revision", None)

    key = _first_difference(base_table, other_table)
    if key is not None:
        raise ModelError(
            f"`{base_directory}` and `{directory}` differ in `{key}` ({base_table.get(key)!r} and "
            f"{other_table.get(key)!r}); average encoders of one recipe"
        )

    if base.backbone.tokenizer.fingerprint != other.backbone.tokenizer.fingerprint:
        raise ModelError(
            f"`{base_directory}` and `{directory}` have other tokenizers; average encoders of one vocabulary"
        )
    base_shapes, other_shapes = _shapes(base), _shapes(other)
    name = _first_difference(base_shapes, other_shapes)
    if name is not None:
        raise ModelError(
            f"`{name}` is {base_shapes.get(name)} in `{base_directory}` and {other_shapes.get(name)} in "
            f"`{directory}`; average encoders that began from the same weights"
        )


def _first_difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> str | None:
    """Return the first key in alphabetical order whose values differ; None if all values are equal."""
    for key in sorted(a.keys() | b.keys()):
        if a.get(key) != b.get(key):
            return key
    return None


def _shapes(encoder: Encoder) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Return the shape and the data type of each weight, by name."""
    shapes = {}
    for name, value in encoder.placed.module.state_dict().items():
        shapes[name] = (tuple(value.shape), value.dtype)
    return shapes


def _weights_hash(directory: Path) -> str:
    """Return the hash of an encoder's files with weights; see `Parent.weights`."""
    files = sorted(directory.rglob("*.safetensors"))
    if not files:
        raise ModelError(
            f"`{directory}` has no `.safetensors` file with weights; save the encoder again"
        )
    sums = {file.relative_to(directory).as_posix(): sha256(file) for file in files}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
