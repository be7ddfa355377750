"""Every exporter and importer of this distribution keeps the contract of a component."""

from __future__ import annotations

import pytest
import sentbed_interop
from sentbed_testing import ComponentContract, offered

CLASSES = [
    *offered(sentbed_interop.exporters()),
    *offered(sentbed_interop.importers()),
]


class TestExportersAndImporters(ComponentContract):
    @pytest.fixture(params=CLASSES)
    def component(self, request):
        return request.param()
