"""Protocols between the parts of sentbed.

Core imports no tensor library, so tensors have the type `Tensor` (= `Any`) here; docstrings give the shapes.
All numeric data passed from an engine to an evaluator is in NumPy arrays.
"""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed._lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from sentbed.protocols.components import (
        LABEL,
        AnyEncoder,
        Backbone,
        BuildContext,
        BuiltBackbone,
        Component,
        Dataset,
        DataSource,
        Executor,
        Exporter,
        Importer,
        Loss,
        LossOutput,
        Mixture,
        Optimizer,
        Pooler,
        Schedule,
        Tracker,
    )
    from sentbed.protocols.engine import (
        Columns,
        Engine,
        Head,
        PlacedEncoder,
        Runtime,
        StepResult,
        Trainer,
        Training,
    )
    from sentbed.protocols.evaluation import (
        Direction,
        DrivesEncoder,
        Evaluation,
        Evaluator,
        Items,
        PartProgress,
        Preparation,
        Prepared,
        Scatter,
        Score,
        TextEncoder,
        Texts,
        Vectors,
    )
    from sentbed.protocols.lazy import Lazy
    from sentbed.protocols.recipe_tables import RecipeTable, TableTraits, Variant, Variants
    from sentbed.protocols.report_data import (
        START,
        ExpectedRow,
        ReportData,
        ReportSection,
        RunStatus,
        StageCurve,
        Watched,
    )
    from sentbed.protocols.run import Run
    from sentbed.protocols.tokens import Module, Tensor, TokenBatch, TokenIds, Tokenizer, TokenStates
    from sentbed.protocols.traits import (
        BackboneTraits,
        ComponentTraits,
        DataTraits,
        EvaluatorTraits,
        LossTraits,
        PoolerTraits,
        RuntimeTraits,
    )
    from sentbed.protocols.vector_store import VectorStore

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)
