"""Program that imports a module and prints which heavy libraries it loads; `heavy_imports` runs it.

It runs in a new process, since it cannot observe the import of a library that is loaded already.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import json
import os
import pickle
import sys
import traceback
from typing import Any

REQUEST: dict[str, Any] = {}
"""Keys: `path` (`sys.path`), `heavy` (names of libraries), `root` (directory of the tested package, or its file),
`module` (to import), `file` (of the module, or None), `cls` (class to create, or None) and `fields` (its pickled
arguments in base64, or None)."""

PLACES: dict[str, str] = {}
"""Heavy library -> `FILE:LINE` of the statement that imports it first."""


class ImportRecorder:
    """Import hook that records in `PLACES` where heavy libraries are imported. Other hooks import them."""

    def find_spec(
        self,
        name: str,
        path: object = None,
        target: object = None,
    ) -> None:
        """Record the innermost line of the tested package that leads to the import of a heavy library."""
        if name not in REQUEST["heavy"] or name in PLACES:
            return
        frames = [
            frame
            for frame in traceback.extract_stack()[:-1]
            if "importlib" not in frame.filename
        ]
        package_frames = [frame for frame in frames if _is_below_root(frame.filename)]
        frame = (package_frames or frames)[-1]
        PLACES[name] = f"{frame.filename}:{frame.lineno}"


def _is_below_root(file: str) -> bool:
    """Whether a file belongs to the tested package."""
    root = REQUEST["root"]
    # With the separator, the package `mine_too` is not taken for a part of `mine`.
    return file == root or file.startswith(root + os.sep)


def import_module() -> Any:
    """Import the module by its name or, if no module of this name is installed, from its file."""
    name, file = REQUEST["module"], REQUEST["file"]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if file is None or error.name != name.partition(".")[0]:
            raise

    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Import the module, create and check the component, and print the heavy libraries as JSON."""
    REQUEST.update(json.loads(sys.argv[1]))
    sys.path[:] = REQUEST["path"]
    sys.meta_path.insert(0, ImportRecorder())

    module = import_module()
    if REQUEST["cls"] is not None:
        cls = getattr(module, REQUEST["cls"])
        if REQUEST["fields"] is not None:
            component = cls(**pickle.loads(base64.b64decode(REQUEST["fields"])))
            list(component.check())

    loaded = {name: place for name, place in PLACES.items() if name in sys.modules}
    print(json.dumps(loaded))


if __name__ == "__main__":
    main()
