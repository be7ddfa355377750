"""What `mkdocs build` adds to docs/: the reference, made of what is installed, and files from elsewhere."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from docs_reference import reference
from mkdocs.structure.files import File, Files
from sentbed.kinds import KINDS
from sentbed.tools import Plugins, load_plugins

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_log = logging.getLogger("mkdocs.hooks.docs_pages")

# A fence is matched to be passed over: what looks like a link in code is none.
_LINK = re.compile(
    r"^ *```.*?^ *```|(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)",
    re.DOTALL | re.MULTILINE,
)


def included() -> dict[str, Path]:
    """Return the pages that are files outside docs/, by their paths in the site."""
    names = {
        "ARCHITECTURE.md": "architecture.md",
        "CONTRIBUTING.md": "contributing.md",
        "CHANGELOG.md": "changelog.md",
    }
    sources = {page: ROOT / name for name, page in names.items()}
    for readme in sorted(
        [*ROOT.glob("core/README.md"), *ROOT.glob("plugins/*/README.md")]
    ):
        sources[f"distributions/{readme.parent.name}.md"] = readme
    for readme in sorted(ROOT.glob("examples/*/README.md")):
        sources[f"distributions/example-{readme.parent.name}.md"] = readme
    return sources


@cache
def generated() -> Mapping[str, str]:
    """Return the pages that are made, by their paths in the site, with links to other pages of the site."""
    pages = {
        page: relink(path.read_text("utf-8"), path, page)
        for page, path in included().items()
    }
    return {**pages, **reference(_plugins(), (DOCS / "hooks.md").read_text("utf-8"))}


def _plugins() -> Plugins:
    return load_plugins()


def missing(site: Path, plugins: Plugins) -> list[str]:
    """Return the pages that a built site lacks: one for each hook and each component of `plugins`."""
    from docs_reference import hooks

    expected = [f"reference/hooks/{name}" for name in hooks()]
    for kind in KINDS:
        expected += [f"reference/{kind}/{name}" for name in plugins.names(kind)]
    return [page for page in expected if not (site / page / "index.html").is_file()]


def relink(text: str, source: Path, page: str) -> str:
    """Turn links between files of the repository into links between pages; one to no page to its text."""
    pages = {path: name for name, path in included().items()} | {
        ROOT / "README.md": "index.md"
    }

    def replace(match: re.Match[str]) -> str:
        if match[3] is None:
            return match[0]
        target = Path(os.path.normpath(source.parent / match[3]))
        name = pages.get(target) or pages.get(target / "README.md")
        if name is None and target.is_relative_to(DOCS):
            name = target.relative_to(DOCS).as_posix()
        if name is None:
            return f"{match[1]}{match[2]}"
        return f"{match[1]}[{match[2]}]({_relative(name, page)}{match[4] or ''})"

    return _LINK.sub(replace, text)


def _relative(name: str, page: str) -> str:
    return PurePosixPath(os.path.relpath(name, PurePosixPath(page).parent)).as_posix()


def on_config(config: Any) -> Any:
    """Give the navigation the pages of `DIRECTORY/*`."""
    for plugin in _plugins().plugins:
        if plugin.reason:
            _log.warning("the plugin `%s` is left out: %s", plugin.name, plugin.reason)
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    config.nav = _expand(config.nav, sorted({*written, *generated()}))
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for page, text in generated().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn a written page's links to files outside docs/ into links to their pages."""
    written = page.file.src_uri not in generated()
    return (
        relink(markdown, DOCS / page.file.src_uri, page.file.src_uri)
        if written
        else markdown
    )


def _expand(nav: list[Any], pages: list[str]) -> list[Any]:
    expanded: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and entry.endswith("/*"):
            expanded += _section(entry.removesuffix("*"), pages)
        elif isinstance(entry, dict):
            expanded.append(
                {
                    title: _expand(part, pages) if isinstance(part, list) else part
                    for title, part in entry.items()
                }
            )
        else:
            expanded.append(entry)
    return expanded


def _section(prefix: str, pages: list[str]) -> Iterator[Any]:
    """Yield the pages below `prefix`, the index first, then a section for each directory."""
    files: list[str] = []
    directories: dict[str, None] = {}
    for page in pages:
        if not page.startswith(prefix):
            continue
        directory, separator, _ = page[len(prefix) :].partition("/")
        if separator:
            directories[directory] = None
        else:
            files.append(page)
    yield from sorted(files, key=lambda page: (not page.endswith("index.md"), page))
    for directory in directories:
        yield {directory: list(_section(f"{prefix}{directory}/", pages))}
