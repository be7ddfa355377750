"""What the parts of sentbed promise each other.

Core imports no tensor library, so a tensor is typed `Tensor` (= `Any`) here; shapes are in the docstrings.
Everything numeric that crosses from an engine to an evaluator is a NumPy array.
"""

from __future__ import annotations

from sentbed.protocols.components import (
    Backbone,
    BuildContext,
    BuiltBackbone,
    Component,
    Dataset,
    DataSource,
    Evaluation,
    Evaluator,
    Loss,
    LossOutput,
    Optimizer,
    Pooler,
    Runtime,
    Scatter,
    Schedule,
    Score,
    TextEncoder,
)
from sentbed.protocols.engine import (
    Engine,
    Head,
    PlacedEncoder,
    StepResult,
    Trainer,
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
    "Backbone",
    "BuildContext",
    "BuiltBackbone",
    "Component",
    "DataSource",
    "Dataset",
    "Engine",
    "Evaluation",
    "Evaluator",
    "Head",
    "Loss",
    "LossOutput",
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
    "Trainer",
]
