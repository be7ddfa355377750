"""Every backbone and intervention of this distribution keeps the contract of its kind."""

from __future__ import annotations

import pytest
import sentbed_backbones
from sentbed_testing import BackboneContract, InterventionContract, offered


class TestBackbones(BackboneContract):
    @pytest.fixture(params=offered(sentbed_backbones.backbones()))
    def component(self, request):
        return request.param(init="random", vocab_size=512)


class TestInterventions(InterventionContract):
    @pytest.fixture(params=offered(sentbed_backbones.interventions()))
    def component(self, request):
        return request.param()
