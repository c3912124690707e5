"""Log directories on disk, and what is read of them in a session."""

from __future__ import annotations

from pathlib import Path

from fastprof.inputs.resolve import Session

OLD, MIDDLE, NEW = "2025_12_31_23_59_59", "2026_01_01_00_00_00", "2026_11_21_09_12_03"


def put(root: Path, *names: str) -> Path:
    """Writes files of one byte, with their folders."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x00")
    return root


def hosts(session: Session) -> list[str | None]:
    return [file.host for file in session.files]


def paths(session: Session, root: Path) -> list[str]:
    return [str(Path(file.path).relative_to(root)) for file in session.files]


def codes(session: Session) -> list[tuple[str, str]]:
    return [(remark.severity, remark.code) for remark in session.remarks]


def profile(run: str, host: str = "vm") -> str:
    return f"plugins/profile/{run}/{host}.xplane.pb"


def write_run(logs: Path, run: str, data: bytes) -> Path:
    """Writes the only capture of a run."""
    path = logs / "plugins" / "profile" / run / "vm.xplane.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
