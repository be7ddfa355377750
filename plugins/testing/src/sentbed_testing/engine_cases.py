"""Test cases for engines: combinations of a backbone, a pooler and a loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
from sentbed.errors import RecipeError
from sentbed.protocols import (
    LABEL,
    Backbone,
    Head,
    Loss,
    Optimizer,
    Pooler,
    Runtime,
    StagePlace,
)
from sentbed.tools import Document, EncoderRecipe, Plugins, Prompt, misfits, structure

ROWS = 6
"""Number of rows per batch."""
MAX_LENGTH = 20
"""Maximum number of tokens per sentence, not counting the tokens of the prompt."""

Table: TypeAlias = Mapping[str, Any]
"""Recipe table of a component: `use` and the component's fields."""

BACKBONES: Mapping[str, Table] = MappingProxyType(
    {
        "bert": {"use": "bert", "init": "random", "vocab_size": 512},
        "t5": {"use": "t5", "init": "random", "vocab_size": 512},
        "opt": {"use": "opt", "init": "random", "vocab_size": 512},
        "llama": {"use": "causal", "init": "random", "vocab_size": 512},
        "static": {"use": "static", "init": "random", "vocab_size": 512},
    }
)
"""Name in test ids -> table of a backbone of the smallest size. `t5` has a decoder if the pooler needs one."""

POOLERS: Mapping[str, Table] = MappingProxyType(
    {"cls-mlp-train": {"use": "cls-mlp", "mlp_only_train": True}}
)
"""Name in test ids -> table of a pooler.

These poolers are tested in addition to the installed poolers, which have their default fields."""

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
"""Name in test ids -> table of a loss, and the optional columns that the loss gets.

A memory of size 8 overflows in the second batch, since a batch has 6 rows."""

OPTIMIZERS: Mapping[str, Table] = MappingProxyType(
    {
        # With the usual `eps` of 1e-8, Adam's step is a quotient of rounding errors if a gradient is nearly 0.
        "adamw": {"use": "adamw", "lr": 3e-4, "eps": 1e-6, "weight_decay": 0.1},
        "adafactor": {"use": "adafactor", "lr": 3e-4},
    }
)
"""Name in test ids -> table of an optimiser."""


@attrs.frozen
class Case:
    """Combination of a backbone, a pooler and a loss, with the names that they have in test ids."""

    backbone_name: str
    pooler_name: str
    loss_name: str
    backbone: Backbone
    pooler: Pooler
    loss: Loss
    columns: tuple[str, ...]
    """Columns that the loss gets."""
    fixed: frozenset[str] = frozenset()
    """Columns that hold fp32 vectors in place of texts, as if a frozen encoder had computed them."""
    head: Head = attrs.field(factory=Head)
    prompt: Prompt | None = None
    """Prompt of the encoder; None means the pooler's default prompt."""

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
        """Columns that hold texts. The trained encoder encodes them."""
        others = {LABEL, *self.loss.numbers, *self.fixed}
        return tuple(name for name in self.columns if name not in others)


def cases(
    plugins: Plugins,
    backbones: Mapping[str, Backbone] | None = None,
    poolers: Mapping[str, Pooler] | None = None,
    losses: Mapping[str, tuple[Loss, Sequence[str]]] | None = None,
    dropout: float = 0.0,
    head: Head | None = None,
) -> list[Case]:
    """Return a case for every combination of parts that fit together; see `sentbed.tools.misfits`.

    A part is a backbone, a pooler or a loss.

    Args:
        plugins: plugins that offer the parts.
        backbones: name in test ids -> backbone; by default, those of `BACKBONES`.
        poolers: name in test ids -> pooler; by default, those of `POOLERS` and each installed pooler without
            required fields.
        losses: name in test ids -> loss, and the optional columns that it gets; by default, those of `LOSSES` and
            each other installed loss without required fields.
        dropout: dropout of the default backbones.
        head: head of all encoders.
    """
    if backbones is None:
        backbones = _default_backbones(plugins, dropout)
    if poolers is None:
        poolers = _default_poolers(plugins)
    if losses is None:
        losses = _default_losses(plugins)
    head = head or Head()

    combinations: list[Case] = []
    for backbone_name, backbone in backbones.items():
        for pooler_name, pooler in poolers.items():
            if any(misfits(EncoderRecipe(backbone, pooler, head))):
                continue
            name_in_ids = backbone_name
            if "decoder" in pooler.needs:
                name_in_ids = f"{backbone_name}-decoder"
            names = (name_in_ids, pooler_name)
            combinations += _cases_of_losses(names, backbone, pooler, losses, head)
    return combinations


def _cases_of_losses(
    names: tuple[str, str],
    backbone: Backbone,
    pooler: Pooler,
    losses: Mapping[str, tuple[Loss, Sequence[str]]],
    head: Head,
) -> Iterator[Case]:
    """Yield a case for each suitable loss; `names` are the names of the backbone and the pooler in test ids."""
    for loss_name, (loss, optional_columns) in losses.items():
        fixed = fixed_columns(loss)
        if fixed is not None:
            columns = (*sorted(loss.needs), *optional_columns)
            yield Case(*names, loss_name, backbone, pooler, loss, columns, fixed, head)


def fixed_columns(loss: Any) -> frozenset[str] | None:
    """Return the columns that a loss must get as vectors of a frozen encoder.

    Three choices are tried in turn: no column, the column `positive`, and the `targets` of the loss. None means
    that the loss accepts none of them.
    """
    for fixed in (frozenset[str](), frozenset({"positive"}), loss.targets):
        if not any(loss.misfits(StagePlace(ROWS, fixed))):
            return fixed
    return None


def cover(candidates: Sequence[Case], *groups: Sequence[str]) -> list[Case]:
    """Return a few of the candidates. Together, they have every combination of parts that any candidate has.

    Each group names some of the kinds `backbone`, `pooler` and `loss`. Only combinations of parts of these kinds
    count. In each round, the case that adds most combinations is taken, or the first of several such cases. So
    the choice is deterministic.
    """
    combinations: list[set[tuple[tuple[str, str], ...]]] = []
    for case in candidates:
        combinations.append({_combination(case, group) for group in groups})

    uncovered = set[tuple[tuple[str, str], ...]]().union(*combinations)
    chosen = []
    while uncovered:
        added = [len(of_case & uncovered) for of_case in combinations]
        best = added.index(max(added))
        chosen.append(candidates[best])
        uncovered -= combinations[best]
    return chosen


def _combination(case: Case, group: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the kind and the name of each part of a case whose kind is in a group."""
    return tuple((kind, str(getattr(case, f"{kind}_name"))) for kind in group)


PAIRS = (("backbone", "pooler"), ("backbone", "loss"), ("pooler", "loss"))
"""Groups for pairwise testing: any two parts that fit together occur together in at least one case."""


@attrs.frozen
class _Parts:
    """Table from which `structure` builds a component. Its fields are the kinds that `part` can create."""

    backbone: Backbone | None = None
    pooler: Pooler | None = None
    loss: Loss | None = None
    optimizer: Optimizer | None = None
    runtime: Runtime | None = None


def part(
    kind: str,
    table: Table,
    plugins: Plugins,
) -> Any:
    """Return the component that a recipe table describes.

    Raises:
        RecipeError: if the table is invalid.
    """
    parts, problems = structure(
        {kind: dict(table)}, _Parts, Document({}), plugins, Path.cwd()
    )
    if problems:
        raise RecipeError(problems)
    return getattr(parts, kind)


def _default_backbones(plugins: Plugins, dropout: float) -> dict[str, Backbone]:
    """Return the installed backbones of `BACKBONES` by name in test ids."""
    backbones: dict[str, Backbone] = {}
    for name, table in BACKBONES.items():
        if table["use"] not in plugins.names("backbone"):
            continue
        backbone = part("backbone", table, plugins)
        if hasattr(backbone, "dropout"):
            backbone = attrs.evolve(backbone, dropout=dropout)
        backbones[name] = backbone
    return backbones


def _default_poolers(plugins: Plugins) -> dict[str, Pooler]:
    """Return the poolers without required fields, and the installed poolers of `POOLERS`, by name in test ids."""
    names = plugins.names("pooler")
    poolers = dict(_with_default_fields("pooler", names, plugins))
    for name, table in POOLERS.items():
        if table["use"] in names:
            poolers[name] = part("pooler", table, plugins)
    return poolers


def _default_losses(plugins: Plugins) -> dict[str, tuple[Loss, Sequence[str]]]:
    """Return the installed losses of `LOSSES`, and other losses without required fields, by name in test ids."""
    names = plugins.names("loss")
    losses: dict[str, tuple[Loss, Sequence[str]]] = {}
    others = set(names)
    for name, (table, optional_columns) in LOSSES.items():
        if table["use"] in names:
            losses[name] = (part("loss", table, plugins), optional_columns)
            others.discard(table["use"])

    remaining = [name for name in names if name in others]
    for name, loss in _with_default_fields("loss", remaining, plugins):
        losses[name] = (loss, ())
    return losses


def _with_default_fields(
    kind: str,
    names: Iterable[str],
    plugins: Plugins,
) -> Iterator[tuple[str, Any]]:
    """Yield the name and an instance of each component that has no required field."""
    for name in names:
        cls = plugins.find(kind, name).cls
        if all(field.default is not attrs.NOTHING for field in attrs.fields(cls)):
            yield name, cls()
