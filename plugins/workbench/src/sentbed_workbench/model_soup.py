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
    from torch import Tensor

PARENTS_FILE = "parents.json"
"""File in an averaged encoder's directory that says what it was made of."""


@attrs.frozen
class Parent:
    """An encoder that was averaged, or left out."""

    path: str
    weights: str
    """SHA-256 over the SHA-256 of its files with weights."""
    score: float | None = None
    """The evaluator's primary score of it alone; None for a uniform average."""
    kept: bool = True
    """Whether it is part of the average."""


@attrs.frozen
class Soup:
    """What an average was made of."""

    method: str
    """`uniform` or `greedy`."""
    parents: tuple[Parent, ...]
    score: float | None = None
    """The evaluator's primary score of the average, for `greedy`."""
    evaluator: Mapping[str, Any] = attrs.field(factory=dict)
    """The evaluator as a recipe's table, for `greedy`."""


def make_soup(
    output: str | Path,
    encoders: Sequence[str | Path],
    evaluator: str | None = None,
    overrides: Sequence[str] = (),
    store: VectorStore | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Soup:
    """Write the mean of the encoders' weights to the new directory `output`; return what is in it.

    `encoders` are directories of encoders or of runs with one encoder; they began from the same weights.
    Without an `evaluator` all are averaged. With one, the average is greedy (Wortsman et al., 2022,
    recipe 1): encoders are added in the order of their scores, the best first, and each stays if the average
    with it scores at least as well as before. `overrides` set the evaluator's fields, or `runtime.FIELD`.
    Means are taken in float64, with one encoder at a time in memory beside them.

    Raises:
        RunError: if `output` is not new, or fewer than two encoders are given.
        ModelError: if encoders have another recipe, tokenizer or shape of weights, or adapters, whose mean of
            products is no product of means.
        RecipeError: if the evaluator's fields are wrong, or it may use test data.
    """
    target = Path(output)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunError(f"`{output}` is not new; average into a new directory")
    if len(encoders) < 2:
        raise RunError(f"an average needs several encoders, and {len(encoders)} is named; name two or more")
    request = request_of(evaluator or "", overrides) if evaluator else None
    if request is not None and not request.evaluate.traits.development:
        raise RunError(problem_of_test_data("a greedy average keeps what scores best", request.evaluate))
    places = [_encoder_in(Path(path)) for path in encoders]
    base = _load(places[0], request)
    mean = _Mean(base)
    parents: list[Parent] = []
    for number, (path, place) in enumerate(zip(encoders, places, strict=True)):
        loaded = base if number == 0 else _load(place, request)
        _require_alike(base, loaded, places[0], place)
        score = None
        if request is None:
            mean.add(loaded)
        else:
            score = evaluate_loaded(loaded, request, str(path), store).primary
            say(f"{path}: {score:.2f}")
        parents.append(Parent(str(path), _weights_hash(place), score))
    best: float | None = None
    if request is not None:
        for number in sorted(range(len(parents)), key=lambda index: -(parents[index].score or 0.0)):
            # Loaded again: there is memory for one beside the mean.
            before = mean.add(_load(places[number], request))
            mean.put()
            score = evaluate_loaded(base, request, str(output), store).primary
            kept = best is None or score >= best
            if kept:
                best = score
                say(f"with {encoders[number]}: {score:.2f}")
            else:
                say(f"with {encoders[number]}: {score:.2f}, left out")
                mean.take_back(before)
                parents[number] = attrs.evolve(parents[number], kept=False)
    mean.put()
    described = unstructure(request.evaluate) if request is not None else {}
    soup = Soup("uniform" if request is None else "greedy", tuple(parents), best, described)

    def fill(directory: Path) -> None:
        base.save(directory)
        record = {"schema": 1, **attrs.asdict(soup)}
        write_atomic(directory / PARENTS_FILE, json.dumps(record, indent=2) + "\n")
        write_sums(directory)

    write_directory(target.resolve(), fill)
    return soup


class _Mean:
    """Running mean of the weights of encoders, in float64, which `put` writes into the first one's module."""

    def __init__(self, base: Encoder) -> None:
        self.base = base
        self.count = 0
        self.sums: dict[str, Tensor] = {}

    def add(self, encoder: Encoder) -> dict[str, Tensor]:
        """Add an encoder; return the sums of before."""
        before, values = self.sums, encoder.placed.module.state_dict()
        self.sums = {
            name: (value.double() + before.get(name, 0)) if value.is_floating_point() else value.clone()
            for name, value in values.items()
        }
        self.count += 1
        return before

    def take_back(self, sums: dict[str, Tensor]) -> None:
        """Undo the last `add`, which returned these sums."""
        self.sums = sums
        self.count -= 1

    def put(self) -> None:
        """Load the mean into the module of the base; what is no floating point is equal in all."""
        self.base.placed.module.load_state_dict(
            {
                name: value / self.count if value.is_floating_point() else value
                for name, value in self.sums.items()
            }
        )
        self.base.placed.weights_changed()  # type: ignore[attr-defined] # of all engines on PyTorch


def _encoder_in(path: Path) -> Path:
    """Return the directory of the encoder in a run, or the directory itself; loading says what is wrong."""
    inside = path / "encoder"
    return inside if inside.is_dir() and not (path / ENCODER_FILE).is_file() else path


def _load(place: Path, request: Request | None) -> Encoder:
    encoder = Encoder.load(place, None if request is None else request.runtime)
    if encoder.placed.module is None:
        raise ModelError("the runtime is not one of PyTorch, and has no weights to average; take `cpu`")
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
        # Where the weights of before training came from.
        table["backbone"] = {k: v for k, v in table["backbone"].items() if k not in {"model", "revision"}}
    differ = sorted(
        key for key in base_table.keys() | other_table.keys() if base_table.get(key) != other_table.get(key)
    )
    if differ:
        raise ModelError(
            f"`{first}` and `{place}` differ in `{differ[0]}` ({base_table.get(differ[0])!r} and "
            f"{other_table.get(differ[0])!r}); average encoders of one recipe"
        )
    if base.backbone.tokenizer.fingerprint != other.backbone.tokenizer.fingerprint:
        raise ModelError(f"`{first}` and `{place}` have other tokenizers; average encoders of one vocabulary")
    shapes, others = (
        {
            name: (tuple(value.shape), value.dtype)
            for name, value in encoder.placed.module.state_dict().items()
        }
        for encoder in (base, other)
    )
    if shapes != others:
        name = sorted(key for key in shapes.keys() | others.keys() if shapes.get(key) != others.get(key))[0]
        raise ModelError(
            f"`{name}` is {shapes.get(name)} in `{first}` and {others.get(name)} in `{place}`; "
            "average encoders that began from the same weights"
        )


def _shapes(encoder: Encoder) -> dict[str, str]:
    weights = encoder.placed.module.state_dict()
    return {name: f"{tuple(value.shape)} {value.dtype}" for name, value in weights.items()}


def _weights_hash(place: Path) -> str:
    files = sorted(place.rglob("*.safetensors"))
    if not files:
        raise ModelError(f"`{place}` has no `.safetensors` file with weights; save the encoder again")
    sums = {file.relative_to(place).as_posix(): sha256(file) for file in files}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
