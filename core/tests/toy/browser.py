"""A headless Chromium for tests of reports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)

needed = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")

FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
    ),
    *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000"),
)

ERRORS = """<script>window.wrong = []; addEventListener("error", e => wrong.push(e.message));</script>"""
"""Goes first, so that it hears of everything."""


def browse(page, tmp_path, *options):
    """Open a page by its path or address, and return what the browser printed, silent in its console."""
    address = page if isinstance(page, str) else page.as_uri()
    command = [
        str(CHROMIUM),
        *FLAGS,
        f"--user-data-dir={tmp_path / 'profile'}",
        *options,
        address,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def probe_of(dom):
    """Return what a script has written into the page's `data-probe`."""
    measured = re.search(r'data-probe="([^"]*)"', dom)
    assert measured, dom[:2000]
    return dict(json.loads(unescape(measured[1])))
