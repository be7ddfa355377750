"""A program that compiles a graph with OpenVINO and computes two batches; see `compilation_trial`.

It is called as `python compilation_program.py GRAPH SETTINGS`. GRAPH is the path of a graph in OpenVINO's format.
SETTINGS are the settings of `compile_model`, as JSON.
"""

from __future__ import annotations

import json
import sys

SHAPES = ((1, 1), (3, 7))
"""Rows and tokens of the batches. They are computed because OpenVINO generates more code when it computes the
first batch of a shape."""


def main() -> None:
    """Compile the graph and compute the batches."""
    # As in `sentbed_openvino._torch`, nothing is sent about the use of OpenVINO.
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
