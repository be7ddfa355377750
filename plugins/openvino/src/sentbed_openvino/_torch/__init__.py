"""The engine on OpenVINO. Importing it imports torch and OpenVINO, so only the runtime's method `build` does."""

import sys

# If the package `openvino_telemetry` is installed, OpenVINO and NNCF send data about their use. They also work
# without it, so it is hidden from them.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
