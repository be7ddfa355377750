"""The engine around OpenVINO; imported by `build` only."""

import sys

# OpenVINO and NNCF send notes of their use through it where it is installed, and run without it.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
