"""Every exporter and importer of this distribution keeps the contract of its kind."""

from __future__ import annotations

import pytest
import sentbed_interop
from sentbed_testing import check_component, offered


@pytest.mark.parametrize("exporter", offered(sentbed_interop.exporters()))
def test_an_exporter_keeps_the_contract(exporter: type) -> None:
    report = check_component(exporter, kind="exporter")
    # The kit has no rule of its own for exporters; each has its tests beside this one.
    assert report.not_run.keys() == {"tried"}


@pytest.mark.parametrize("importer", offered(sentbed_interop.importers()))
def test_an_importer_keeps_the_contract(importer: type) -> None:
    assert check_component(importer, kind="importer").not_run == {}
