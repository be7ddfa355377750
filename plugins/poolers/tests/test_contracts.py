"""Every pooler, prompt, similarity and transform of this distribution keeps the contract of its kind."""

from __future__ import annotations

import pytest
import sentbed_poolers
from sentbed.tools import component_of
from sentbed_poolers.cls_mlp import ClsMLP
from sentbed_poolers.embed_filter import EmbedFilter
from sentbed_poolers.maxsim import MaxSim
from sentbed_poolers.mean_first_last import MeanFirstLast
from sentbed_poolers.template_prompt import Demonstration, TemplatePrompt
from sentbed_poolers.whitening import Whitening
from sentbed_testing import (
    PoolerContract,
    PromptContract,
    SimilarityContract,
    TransformContract,
    offered,
)

OTHER_POOLERS = [
    ClsMLP(mlp_only_train=True),
    MeanFirstLast(first="layer-1"),
]
SHOWN = Demonstration("A jockey riding a horse.", "Equestrian")
PROMPTS = [
    TemplatePrompt("prompt-bert"),
    TemplatePrompt("prompt-eol", normalizer="prompt-eol", demonstration=SHOWN),
    TemplatePrompt("echo"),
    TemplatePrompt("{instruction}: {text}"),
]
FILTERS = [
    EmbedFilter(),
    EmbedFilter(tau=4),
    EmbedFilter(first=0),
]
WHITENINGS = [
    {},
    {"dimensions": 3, "max_texts": 60},
]


class TestPoolers(PoolerContract):
    """Every pooler with its defaults."""

    @pytest.fixture(params=offered(sentbed_poolers.poolers()))
    def component(self, request):
        return request.param()


class TestPoolersWithFields(PoolerContract):
    """Poolers with other fields."""

    @pytest.fixture(params=OTHER_POOLERS, ids=repr)
    def component(self, request):
        return request.param


class TestPrompts(PromptContract):
    """Prompts with templates of each form."""

    @pytest.fixture(params=PROMPTS, ids=repr)
    def component(self, request):
        return request.param


class TestSimilarities(SimilarityContract):
    """Every similarity with its defaults."""

    @pytest.fixture(params=offered(sentbed_poolers.similarities()))
    def component(self, request):
        return request.param()


class TestMeanOfMaxima(SimilarityContract):
    """MaxSim as a mean."""

    component = MaxSim(mean=True)


class TestFilters(TransformContract):
    """Filters of the output embedding, which are fitted on no texts."""

    @pytest.fixture(params=FILTERS, ids=repr)
    def component(self, request):
        return request.param


class TestWhitening(TransformContract):
    """Whitening of the sample of `sentbed-data`."""

    @pytest.fixture(params=WHITENINGS, ids=str)
    def component(self, request):
        pytest.importorskip("sentbed_data")
        return component_of(Whitening, data={"use": "sample"}, **request.param)
