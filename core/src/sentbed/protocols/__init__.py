"""What the parts of sentbed promise each other.

Core imports no tensor library, so a tensor is typed `Tensor` (= `Any`) here; shapes are in the docstrings.
Everything numeric that crosses from an engine to an evaluator is a NumPy array.
"""

from __future__ import annotations

from sentbed.protocols.components import (
    LABEL,
    Backbone,
    BuildContext,
    BuiltBackbone,
    Component,
    Dataset,
    DataSource,
    Evaluation,
    Evaluator,
    Items,
    KnownData,
    KnownFile,
    Loss,
    LossOutput,
    Mixture,
    Optimizer,
    Pooler,
    Runtime,
    Scatter,
    Schedule,
    Score,
    TextEncoder,
    Tracker,
)
from sentbed.protocols.engine import (
    Columns,
    Engine,
    Head,
    PlacedEncoder,
    StepResult,
    Trainer,
    Training,
)
from sentbed.protocols.tokens import (
    Module,
    Tensor,
    TokenBatch,
    TokenIds,
    Tokenizer,
    TokenStates,
)

__all__ = [
    "LABEL",
    "Backbone",
    "BuildContext",
    "BuiltBackbone",
    "Columns",
    "Component",
    "DataSource",
    "Dataset",
    "Engine",
    "Evaluation",
    "Evaluator",
    "Head",
    "Items",
    "KnownData",
    "KnownFile",
    "Loss",
    "LossOutput",
    "Mixture",
    "Module",
    "Optimizer",
    "PlacedEncoder",
    "Pooler",
    "Runtime",
    "Scatter",
    "Schedule",
    "Score",
    "StepResult",
    "Tensor",
    "TextEncoder",
    "TokenBatch",
    "TokenIds",
    "TokenStates",
    "Tokenizer",
    "Tracker",
    "Trainer",
    "Training",
]
