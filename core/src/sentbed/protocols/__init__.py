"""Base classes of components, and the data that components pass to each other.

For type checkers, `Tensor` is `torch.Tensor`. When a program runs, it is `Any`, since core imports no tensor
library. Docstrings give the shapes. Engines pass vectors to evaluators as NumPy arrays.
"""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed._lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from sentbed.protocols.components import (
        LABEL,
        LOSS_NEEDS,
        POOLER_NEEDS,
        PROGRESS,
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
        Intervention,
        Loss,
        LossOutput,
        Optimizer,
        Output,
        Pooler,
        Pooling,
        Schedule,
        Similarity,
        StagePlace,
        Start,
        Tracker,
        cut_into_batches,
        inner_parts,
        of_inner,
    )
    from sentbed.protocols.engine import (
        RUNTIME_OFFERS,
        Columns,
        Engine,
        Head,
        PlacedEncoder,
        Runtime,
        StepResult,
        Trainer,
        Training,
        TrainingEngine,
        Transform,
    )
    from sentbed.protocols.evaluation import (
        ANY_TASK,
        Direction,
        DrivesEncoder,
        Encoded,
        Evaluation,
        Evaluator,
        PartProgress,
        Preparation,
        Prepared,
        Score,
        TextEncoder,
        Texts,
        TextTask,
        Vectors,
        VectorStore,
    )
    from sentbed.protocols.items import Items, Statistic
    from sentbed.protocols.prompts import (
        INSTRUCTION,
        MASK,
        TEXT,
        Prompt,
        ResolvedPrompt,
        Template,
    )
    from sentbed.protocols.recipe import (
        MAIN_ENCODER,
        PRETRAINED,
        SHORTEST,
        Checkpoint,
        EncoderRecipe,
        Evaluate,
        Expected,
        InstalledPlugins,
        Recipe,
        RecipeTable,
        RunTable,
        Stage,
        TableTraits,
        Validate,
        Variants,
        Watch,
    )
    from sentbed.protocols.report_data import (
        START,
        ExpectedRow,
        ReportData,
        ReportSection,
        Run,
        RunStatus,
        StageCurve,
        Watched,
    )
    from sentbed.protocols.tokens import (
        BlockStates,
        Module,
        Tensor,
        TokenBatch,
        TokenIds,
        Tokenizer,
        TokenStates,
        TokenVectors,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)
