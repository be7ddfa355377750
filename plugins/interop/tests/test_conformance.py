"""Every exporter and importer of this distribution keeps the contract of its kind."""

from __future__ import annotations

import sentbed_interop
from sentbed_testing import offered, parametrize_with_rules


# The kit has no rule of its own for exporters; each has its tests beside this one.
@parametrize_with_rules(offered(sentbed_interop.exporters()), must_run=True)
def test_an_exporter_keeps_the_contract(rule):
    rule()


@parametrize_with_rules(offered(sentbed_interop.importers()), must_run=True)
def test_an_importer_keeps_the_contract(rule):
    rule()
