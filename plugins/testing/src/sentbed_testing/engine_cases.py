"""Test cases for engines: backbone x pooler x loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
from sentbed.errors import RecipeError
from sentbed.protocols import LABEL, Backbone, Head, Loss, Optimizer, Pooler, Runtime
from sentbed.tools import Document, EncoderRecipe, Plugins, Prompt, misfits, structure

ROWS = 6
"""Number of rows per batch."""
MAX_LENGTH = 20
"""Maximum number of tokens per sentence, without those of the prompt."""

Table: TypeAlias = Mapping[str, Any]
"""A component as a table of a recipe: `use` and its fields."""

BACKBONES: Mapping[str, Table] = MappingProxyType(
    {
        "bert": {"use": "bert", "init": "random", "vocab_size": 512},
        "t5": {"use": "t5", "init": "random", "vocab_size": 512},
        "opt": {"use": "opt", "init": "random", "vocab_size": 512},
        "llama": {"use": "causal", "init": "random", "vocab_size": 512},
        "static": {"use": "static", "init": "random", "vocab_size": 512},
    }
)
"""Backbones in their smallest size. With a pooler that needs a decoder, `t5` has one."""

POOLERS: Mapping[str, Table] = MappingProxyType(
    {"cls-mlp-train": {"use": "cls-mlp", "mlp_only_train": True}}
)
"""Poolers to test besides every installed one with default fields."""

LOSSES: Mapping[str, tuple[Table, tuple[str, ...]]] = MappingProxyType(
    {
        "info-nce": ({"use": "info-nce", "temperature": 0.5}, ()),
        "info-nce-options": (
            {
                "use": "info-nce",
                "temperature": {"initial": 0.5},
                "symmetric": True,
                "margin": 0.1,
                "hard_negative_weight": 2.0,
                "mask_duplicates": True,
            },
            ("negative",),
        ),
        "queue": ({"use": "queue", "size": 8, "temperature": 0.5}, ()),
        "momentum": (
            {
                "use": "momentum",
                "size": 8,
                "momentum": 0.5,
                "temperature": 0.5,
                "mask_duplicates": True,
            },
            ("negative",),
        ),
        "classification": ({"use": "classification"}, ()),
        "nli-softmax": ({"use": "nli-softmax", "product": True}, ()),
        "cosent": ({"use": "cosent", "temperature": 0.5}, ()),
        "angle": ({"use": "angle", "temperature": 0.5}, ()),
        "gist": ({"use": "gist", "temperature": 0.5}, ()),
        "similarity-kl": ({"use": "similarity-kl", "temperature": 0.5}, ()),
        "flops": (
            {
                "use": "flops",
                "loss": {"use": "info-nce", "temperature": 0.5},
                "query_weight": 0.1,
                "document_weight": 0.1,
                "warmup": 0.5,
            },
            ("negative",),
        ),
        "matryoshka": (
            {
                "use": "matryoshka",
                "loss": {"use": "info-nce", "temperature": 0.5, "hardness": 5.0},
                "dimensions": [128, 16],
            },
            ("negative", "negative_2"),
        ),
        "sum": (
            {
                "use": "sum",
                "losses": [
                    {"use": "queue", "size": 8, "temperature": 0.5},
                    {"use": "spread-out"},
                ],
                "weights": [1.0, 0.5],
            },
            (),
        ),
    }
)
"""Table and optional columns of each loss. A memory of 8 overflows in the second batch of 6."""

OPTIMIZERS: Mapping[str, Table] = MappingProxyType(
    {
        # With `eps` 1e-8, Adam divides rounding errors by each other wherever a gradient is nearly 0.
        "adamw": {"use": "adamw", "lr": 3e-4, "eps": 1e-6, "weight_decay": 0.1},
        "adafactor": {"use": "adafactor", "lr": 3e-4},
    }
)


@attrs.frozen
class Case:
    """Combination of a backbone, a pooler and a loss."""

    backbone_name: str
    pooler_name: str
    loss_name: str
    backbone: Backbone
    pooler: Pooler
    loss: Loss
    columns: tuple[str, ...]
    """Columns passed to the loss."""
    fixed: frozenset[str] = frozenset()
    """Columns given as fp32 vectors, as from a frozen tower."""
    head: Head = attrs.field(factory=Head)
    prompt: Prompt | None = None
    """Prompt; None means the pooler's own."""

    @property
    def id(self) -> str:
        """Id of the test, such as `bert/mean/info-nce`."""
        head = "" if self.head == Head() else "+head"
        return f"{self.backbone_name}/{self.pooler_name}{head}/{self.loss_name}"

    @property
    def recipe(self) -> EncoderRecipe:
        """Recipe of the encoder."""
        return EncoderRecipe(
            self.backbone, self.pooler, self.head, MAX_LENGTH, self.prompt
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of texts that are encoded with gradient."""
        others = {LABEL, *self.loss.traits.numbers, *self.fixed}
        return tuple(name for name in self.columns if name not in others)


def cases(
    plugins: Plugins,
    backbones: Mapping[str, Backbone] | None = None,
    poolers: Mapping[str, Pooler] | None = None,
    losses: Mapping[str, tuple[Loss, Sequence[str]]] | None = None,
    dropout: float = 0.0,
    head: Head | None = None,
) -> list[Case]:
    """Return every combination of compatible parts, by `sentbed.tools.misfits`.

    Args:
        plugins: source of the parts.
        backbones: name in ids -> backbone; by default `BACKBONES`.
        poolers: likewise; by default `POOLERS`, and all that are installed and have no required field.
        losses: likewise, each with the optional columns that it is given; by default `LOSSES`, and all
            others that are installed and have no required field.
        dropout: dropout of the default backbones.
        head: head of all encoders.
    """
    if backbones is None:
        backbones = _backbones(plugins, dropout)
    poolers = _poolers(plugins) if poolers is None else poolers
    losses = _losses(plugins) if losses is None else losses
    combinations = []
    for (backbone_name, backbone), (pooler_name, pooler) in product(
        backbones.items(), poolers.items()
    ):
        recipe = EncoderRecipe(backbone, pooler, head or Head())
        if any(misfits(recipe, plugins)):
            continue
        called = (
            f"{backbone_name}-decoder"
            if "decoder" in pooler.traits.needs
            else backbone_name
        )
        for loss_name, (loss, more) in losses.items():
            fixed = None if loss.traits.predicts else fixed_columns(loss)
            if fixed is not None:
                columns = (*sorted(loss.traits.needs), *more)
                names = (called, pooler_name, loss_name)
                combinations.append(
                    Case(*names, backbone, pooler, loss, columns, fixed, recipe.head)
                )

    return combinations


def fixed_columns(loss: Any) -> frozenset[str] | None:
    """Return the columns that a loss needs from a frozen tower, or None if no choice suits it."""
    for fixed in (frozenset[str](), frozenset({"positive"}), loss.traits.targets):
        if not any(loss.misfits(ROWS, fixed)):
            return fixed
    return None


def cover(candidates: Sequence[Case], *groups: Sequence[str]) -> list[Case]:
    """Return a few cases that cover every combination of each group's parts in `candidates`.

    A group is some of `backbone`, `pooler` and `loss`. The next case is always the first one that adds most
    combinations, so the choice is deterministic.
    """
    brings: list[frozenset[tuple[tuple[str, str], ...]]] = []
    for case in candidates:
        combinations = set()
        for group in groups:
            combinations.add(
                tuple((kind, str(getattr(case, f"{kind}_name"))) for kind in group)
            )
        brings.append(frozenset(combinations))

    left = frozenset[tuple[tuple[str, str], ...]]().union(*brings)
    chosen = []
    while left:
        best = max(range(len(candidates)), key=lambda index: len(brings[index] & left))
        chosen.append(candidates[best])
        left -= brings[best]
    return chosen


PAIRS = (("backbone", "pooler"), ("backbone", "loss"), ("pooler", "loss"))
"""Groups for pairwise testing: every two compatible parts occur together in some case."""


@attrs.frozen
class _Parts:
    backbone: Backbone | None = None
    pooler: Pooler | None = None
    loss: Loss | None = None
    optimizer: Optimizer | None = None
    runtime: Runtime | None = None


def part(kind: str, table: Table, plugins: Plugins) -> Any:
    """Return the component of a recipe table.

    Raises:
        RecipeError: if a recipe with it would be refused.
    """
    parts, problems = structure(
        {kind: dict(table)}, _Parts, Document({}), plugins, Path.cwd()
    )
    if problems:
        raise RecipeError(problems)
    return getattr(parts, kind)


def _backbones(plugins: Plugins, dropout: float) -> dict[str, Backbone]:
    built: dict[str, Backbone] = {}
    for name, table in BACKBONES.items():
        if table["use"] not in plugins.names("backbone"):
            continue
        backbone = part("backbone", table, plugins)
        if hasattr(backbone, "dropout"):
            backbone = attrs.evolve(backbone, dropout=dropout)
        built[name] = backbone

    return built


def _poolers(plugins: Plugins) -> dict[str, Pooler]:
    names = plugins.names("pooler")
    poolers = dict(_without_parameters("pooler", names, plugins))
    for name, table in POOLERS.items():
        if table["use"] in names:
            poolers[name] = part("pooler", table, plugins)
    return poolers


def _losses(plugins: Plugins) -> dict[str, tuple[Loss, Sequence[str]]]:
    names = plugins.names("loss")
    losses: dict[str, tuple[Loss, Sequence[str]]] = {}
    for name, (table, more) in LOSSES.items():
        if table["use"] in names:
            losses[name] = (part("loss", table, plugins), more)

    ours = {table["use"] for table, _ in LOSSES.values()}
    others = [name for name in names if name not in ours]
    for name, loss in _without_parameters("loss", others, plugins):
        losses[name] = (loss, ())
    return losses


def _without_parameters(
    kind: str, names: Iterable[str], plugins: Plugins
) -> Iterable[tuple[str, Any]]:
    for name in names:
        cls = plugins.find(kind, name).cls
        if all(field.default is not attrs.NOTHING for field in attrs.fields(cls)):
            yield name, cls()
