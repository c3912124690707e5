"""What a worker does with what was kept of many hosts: merges it, 32 at a time, so that the session has few of it."""

from __future__ import annotations

from typing import Any

from fastprof.analyses.keeping import KeptOfHosts, Plan
from fastprof.analyses.merging import together
from fastprof.decode.import_log import ImportLog
from fastprof.engines.host_task import GroupTask, Kept, Packed
from fastprof.engines.keep_host import answered, plan_of
from fastprof.engines.packing import pack, unpack
from fastprof.errors import EngineError, FastprofError, MemoryLimitError


def combine_hosts(task: GroupTask) -> Kept:
    """One of the parts of a group, packed as they are. Whatever is wrong is returned, so that no engine tries it
    again."""
    return answered(task, lambda: _combined(task))


def _combined(task: GroupTask) -> Kept:
    plan, texts = plan_of(task.work), dict[str, str]()
    parts: list[KeptOfHosts] = []
    try:
        for one, number in zip(task.parts, task.numbers, strict=True):
            assert isinstance(one.payload, bytes) and isinstance(one.beside, bytes)
            (part,) = unpack(one.payload, one.raw_bytes, one.beside, ImportLog(), _no_programs, texts)
            if number is not None:
                renumber(part.kept, plan, number)
            parts.append(part)
        packed = Packed(*pack([together(parts, plan)]))
    except FastprofError as error:
        return Kept(task.number, fault=error)
    except MemoryError:
        return Kept(task.number, fault=MemoryLimitError(f"out of memory, merging what was kept of {task.what}"))
    return Kept(task.number, packed=packed)


def renumber(kept: dict[str, list[Any]], plan: Plan, number: int) -> None:
    """What was kept of a host, of the host of this number in the session."""
    for name in kept:
        kept[name] = [renumbered(plan, name, one, number) for one in kept[name]]


def renumbered(plan: Plan, name: str, value: Any, number: int) -> Any:
    """The same of what an analysis kept."""
    numbered = getattr(plan.analyses[name], "numbered", None)
    return value if numbered is None else numbered(value, number)


def _no_programs(program_id: int, _: int) -> bytes:
    raise EngineError(f"the program {program_id} is not where hosts are merged")
