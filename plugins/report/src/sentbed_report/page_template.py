"""Pages by jinja2: templates beside their styles and scripts, in a package."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from jinja2 import Template


@attrs.frozen
class Script:
    """Only what has its hash in the page's policy runs, whatever else gets into the page."""

    text: str

    @property
    def hash(self) -> str:
        """SHA-256 of the script in base64, as the policy names it."""
        return base64.b64encode(hashlib.sha256(self.text.encode()).digest()).decode()


def page_template(package: str, name: str) -> Template:
    """Return a template of a package, which escapes what it is given.

    It takes 0.1 s, so that callers keep it.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(resource(package, name))


@cache
def resource(package: str, name: str) -> str:
    """Return the text of a file of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")
