"""Write what the distributions of this project offer into core's catalogue.

python tools/catalog.py
"""

from __future__ import annotations

from pathlib import Path

from sentbed.tools import load_plugins

ROOT = Path(__file__).parent.parent
CATALOG = ROOT / "core/src/sentbed/_registry/distribution_catalog.toml"

HEAD = """\
# Which distribution of this project offers what; `python tools/catalog.py` writes it. Only messages are made
# of it: what to install where something is missing.

"""


def catalog_text() -> str:
    """Return the catalogue as TOML: `KIND/NAME` -> distribution."""
    ours = {f"sentbed-{path.name}" for path in (ROOT / "plugins").iterdir()}
    lines = []
    for plugin in load_plugins().plugins:
        if plugin.distribution not in ours:
            continue
        for offer in plugin.offers:
            lines.append(f'"{offer.kind}/{offer.name}" = "{offer.distribution}"\n')
    return HEAD + "".join(sorted(lines))


if __name__ == "__main__":
    CATALOG.write_text(catalog_text(), "utf-8")
