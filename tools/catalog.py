"""Write what the distributions of this project offer into core's catalogue.

python tools/catalog.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from sentbed.tools import load_plugins

ROOT = Path(__file__).parent.parent
CATALOG = ROOT / "core/src/sentbed/_registry/distribution_catalog.toml"

HEAD = """\
# What each distribution of this project offers; `python tools/catalog.py` writes it. Only messages are
# made of it: what to install where something is missing.
"""

Offers: TypeAlias = dict[str, dict[str, list[str]]]
"""Distribution -> `components` (`KIND/NAME`), `commands` and `tables` -> names."""


def installed_offers() -> Offers:
    """Return what each distribution of this project offers, in order."""
    plugins = load_plugins()
    offers: Offers = {}
    for directory in sorted((ROOT / "plugins").iterdir()):
        offers[f"sentbed-{directory.name}"] = {
            "components": [],
            "commands": [],
            "tables": [],
        }
    for (kind, name), info in plugins.components.items():
        if info.distribution in offers:
            offers[info.distribution]["components"].append(f"{kind}/{name}")
    for name, command in plugins.commands.items():
        if command.distribution in offers:
            offers[command.distribution]["commands"].append(name)
    for name, table in plugins.tables.items():
        if table.distribution in offers:
            offers[table.distribution]["tables"].append(name)
    return offers


def catalog_text(offers: Offers) -> str:
    """Return the catalogue as TOML, without distributions that offer nothing by name."""
    lines = [HEAD]
    for distribution, names_of in offers.items():
        if not any(names_of.values()):
            continue
        lines.append(f"[{distribution}]")
        for what, names in names_of.items():
            if names:
                lines.append(f"{what} = [")
                lines += [f'    "{name}",' for name in sorted(names)]
                lines.append("]")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    CATALOG.write_text(catalog_text(installed_offers()), "utf-8")
