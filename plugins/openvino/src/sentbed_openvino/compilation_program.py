"""Compile a graph with OpenVINO and compute two batches: `python compilation_program.py GRAPH SETTINGS`.

GRAPH is a file of OpenVINO, SETTINGS are those of `compile_model`, as JSON.
"""

from __future__ import annotations

import json
import sys

SHAPES = ((1, 1), (3, 7))
"""Rows and tokens of the batches: code is generated for the first batch of a shape, too."""


def main() -> None:
    """Do what the module says."""
    # As in the process that started this one.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import numpy as np
    import openvino

    path, settings = sys.argv[1], json.loads(sys.argv[2])
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    request = compiled.create_infer_request()
    for shape in SHAPES:
        ones = np.ones(shape, np.int64)
        request.infer([ones, ones])


if __name__ == "__main__":
    main()
