"""Faults of components, the test that finds each, and the contracts of these components.

`test_contracts.py` runs pytest on this module.
"""

from __future__ import annotations

import faulty_components as components
import faulty_modules as modules
import pytest
from sentbed_testing import (
    BackboneContract,
    DataContract,
    EvaluatorContract,
    InterventionContract,
    LossContract,
    OptimizerContract,
    PoolerContract,
    PromptContract,
    ScheduleContract,
    SimilarityContract,
    TrackerContract,
    TransformContract,
)

POOLERS = {
    "mutates a buffer": "test_a_call_changes_nothing",
    "keeps what it saw": "test_a_call_changes_nothing",
    "writes into states": "test_a_call_changes_nothing",
    "seeds torch": "test_a_call_changes_nothing",
    "draws from NumPy": "test_a_call_changes_nothing",
    "seeds Python": "test_a_call_changes_nothing",
    "draws from elsewhere": "test_a_repeated_call_gives_the_same",
    "noise at encoding": "test_a_repeated_call_gives_the_same",
    "misspelt need": "test_needs",
    "plain mean": "test_padding_changes_nothing",
    "forgets on save": "test_weights_are_saved",
    "saves half": "test_weights_are_saved",
    "holds a constant": "test_tensors_are_registered",
    "boolean index": "test_can_be_traced",
    "item": "test_can_be_traced",
    "detached": "test_gradient",
    "centred on the batch": "test_alone_as_in_a_batch",
    "NaN without a mask": "test_alone_as_in_a_batch",
    "knows its row": "test_alone_as_in_a_batch",
    "wider": "test_shape",
    "wrong type": "test_shape",
    "one vector": "test_shape",
    "raises": "test_shape",
    "reads what it does not need": "test_shape",
    "exp": "test_a_repeated_call_gives_the_same",
    "deviation of one": "test_gradient",
    "root of a deviation": "test_gradient",
}
LOSSES = {
    "item": "test_output",
    "metric with a gradient": "test_output",
    "one row": "test_output",
    "one loss a row": "test_output",
    "needs what it takes": "test_output",
    "misspelt need": "test_needs_are_words_that_engines_know",
    "data-dependent": "test_can_be_traced",
    "scaled by an item": "test_can_be_traced",
    "state of another name": "test_state",
    "state that grows": "test_state",
    "state from nowhere": "test_state",
    "keeps the batch": "test_a_call_changes_nothing",
    "writes into vectors": "test_a_call_changes_nothing",
    "knows its row": "test_rows_in_another_order",
    "detached": "test_gradient",
    "forgets on save": "test_weights_are_saved",
    "exp": "test_output",
    "gradient of a root": "test_gradient",
}
SIMILARITIES = {
    "detached": "test_gradient",
    "one row": "test_shape",
    "of the block": "test_alone_as_in_a_batch",
    "compares padding": "test_alone_as_in_a_batch",
    "in place": "test_is_a_function",
    "token vectors in place": "test_is_a_function",
    "other pairs": "test_pairwise_is_the_diagonal",
}
INTERVENTIONS = {
    "unknown point": "test_places",
    "in place": "test_is_a_function",
    "shorter": "test_is_a_function",
    "drawn": "test_is_a_function",
    "last column": "test_alone_as_in_a_batch",
}
SOURCES = {
    "other columns": "test_columns",
    "unsaid numbers": "test_values",
    "each row once": "test_values",
    "sorted rows": "test_rows_are_the_same_in_every_call",
    "changes with the call": "test_rows_are_the_same_in_every_call",
    "changes with the batch": "test_rows_are_the_same_in_every_call",
    "changes with the epoch": "test_rows_of_another_epoch",
    "one column of texts": "test_texts",
    "fingerprint of an address": "test_fingerprint",
    "drawn order": "test_order",
    "shorter second epoch": "test_order",
    "order from 1": "test_order",
    "larger batches": "test_batches",
    "drawn batches": "test_batches",
    "fewer batches later": "test_batches",
}
PROMPTS = {
    "a string": "test_rules",
    "unnamed rules": "test_rules",
    "drawn rules": "test_rules",
    "rules that return no text": "test_rules",
    "no prompt for a task": "test_for_task",
    "saved without its words": "test_self_contained",
    "saved with other rules": "test_self_contained",
}
EVALUATORS = {
    "two sides": "test_lists",
    "other texts": "test_lists",
    "not finite": "test_scores",
    "no protocol": "test_scores",
    "twice": "test_scores",
    "an iterator": "test_scores",
    "one half": "test_scores",
    "by chance": "test_a_second_evaluation_gives_the_same",
    "seeds Python": "test_a_second_evaluation_gives_the_same",
    "other items": "test_items",
    "texts of fewer items": "test_texts_of_items",
    "texts of no list": "test_texts_of_items",
}
OPTIMIZERS = {
    "ascends": "test_descends",
    "forgets scalars": "test_descends",
    "another rate": "test_learning_rate",
    "decays apart": "test_learning_rate",
    "counts apart": "test_resumes",
}
TRANSFORMS = {
    "numbers": "test_texts",
    "drawn texts": "test_texts",
    "no width": "test_fit",
    "nothing": "test_fit",
    "narrow": "test_fit",
    "drawn": "test_fit_is_a_function",
    "writes": "test_fit_is_a_function",
}
SCHEDULES = {
    "above 1": "test_factors",
    "drawn": "test_factors",
    "raises": "test_factors",
    "always 0": "test_some_steps_train",
}
CLASSES = {
    "Silent": "test_is_documented",
    "Miscalled": "test_has_no_misspelt_name",
    "Unexplained": "test_is_documented",
    "Converted": "test_survives_toml",
    "Unequal": "test_survives_toml",
    "Listed": "test_survives_pickle",
}
TRACKERS = {
    "the same object": "test_hooks",
    "misspelt": "test_hooks",
    "unmarked": "test_hooks",
    "argument": "test_hooks",
    "needs a state": "test_follows_a_resumed_run",
    **dict.fromkeys(components.HOOKS, "test_follows_a_run"),
    "run_resumed": "test_follows_a_resumed_run",
    "run_failed": "test_follows_a_run_that_fails",
}
BACKBONES = {
    "wider": "test_width",
    "no layers": "test_offers",
    "blind to the mask": "test_alone_as_in_a_batch",
    "forgets": "test_saved_and_loaded",
    "drops when encoding": "test_inference",
    "longer": "test_tokenizer_keeps_to_the_length",
}


class TestPoolers(PoolerContract):
    FAULTS = POOLERS

    @pytest.fixture(params=["", *POOLERS])
    def component(self, request):
        return modules.Attend(request.param)


class TestLosses(LossContract):
    FAULTS = LOSSES

    @pytest.fixture(params=["", *LOSSES])
    def component(self, request):
        return modules.Nearest(request.param)


class TestSimilarities(SimilarityContract):
    FAULTS = SIMILARITIES

    @pytest.fixture(params=["", *SIMILARITIES])
    def component(self, request):
        return components.DotProduct(request.param)


class TestInterventions(InterventionContract):
    FAULTS = INTERVENTIONS

    @pytest.fixture(params=["", *INTERVENTIONS])
    def component(self, request):
        return components.LastToZero(request.param)


class TestSources(DataContract):
    FAULTS = SOURCES

    @pytest.fixture(params=["", *SOURCES])
    def component(self, request):
        return components.Nine(request.param)


class TestPrompts(PromptContract):
    FAULTS = PROMPTS

    @pytest.fixture(params=["", *PROMPTS])
    def component(self, request):
        return components.Said(request.param)


class TestEvaluators(EvaluatorContract):
    FAULTS = EVALUATORS

    @pytest.fixture(params=["", *EVALUATORS])
    def component(self, request):
        return components.Size(request.param)


class TestOptimizers(OptimizerContract):
    FAULTS = OPTIMIZERS

    @pytest.fixture(params=["", *OPTIMIZERS])
    def component(self, request):
        return components.Descent(fault=request.param)


class TestTransforms(TransformContract):
    FAULTS = TRANSFORMS

    @pytest.fixture(params=["", *TRANSFORMS])
    def component(self, request):
        return components.Shift(request.param)


class TestSchedules(ScheduleContract):
    FAULTS = SCHEDULES

    @pytest.fixture(params=["", *SCHEDULES])
    def component(self, request):
        return components.Ramp(request.param)


class TestClasses(ScheduleContract):
    FAULTS = CLASSES

    @pytest.fixture(params=list(CLASSES))
    def component(self, request):
        return getattr(components, request.param)()


class TestTrackers(TrackerContract):
    FAULTS = TRACKERS

    @pytest.fixture(params=["", *TRACKERS])
    def component(self, request):
        return components.Listener(request.param)


class TestBackbones(BackboneContract):
    FAULTS = BACKBONES

    @pytest.fixture(params=["", *BACKBONES])
    def component(self, request):
        from faulty_backbones import FaultyBert

        return FaultyBert(init="random", vocab_size=512, fault=request.param)
