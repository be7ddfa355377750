from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import sentbed_data
from sentbed._registry.distribution_catalog import catalog
from sentbed_testing import offered


def test_the_entry_point_names_the_package() -> None:
    found = [
        point.value
        for point in entry_points(group="sentbed")
        if point.dist.name == "sentbed-data"
    ]
    assert found == ["sentbed_data"]


def test_the_hook_offers_the_sources_that_core_knows_of() -> None:
    names = [f"data/{source.name}" for source in offered(sentbed_data.data_sources())]
    assert sorted(names) == sorted(catalog()["sentbed-data"]["components"])


def test_importing_and_checking_loads_no_heavy_library() -> None:
    code = (
        "import sys, sentbed_data\n"
        "from sentbed_testing import offered\n"
        "of = {source.name: source for source in offered(sentbed_data.data_sources())}\n"
        "assert not list(of['sample']().check())\n"
        "list(of['dropout'](path='hub:a/b').check())\n"
        "list(of['synonyms'](path='a.txt').check())\n"
        "list(of['nsp'](path='a.txt', format='text').check())\n"
        "heavy = {'numpy', 'pyarrow', 'datasets', 'torch', 'transformers', 'nltk', 'syntok'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
