"""The capture that the server of objects has, and its key."""

from __future__ import annotations

from pathlib import Path

LOGDIR = Path(__file__).parent.parent.parent / "demo" / "logdir"
RUN = "plugins/profile/2026_11_21_09_58_38"
KEY = f"logs/{RUN}/vm.xplane.pb"
CAPTURE = LOGDIR.joinpath(RUN, "vm.xplane.pb").read_bytes()
