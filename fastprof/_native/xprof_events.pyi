from typing import Any

class Drawn:
    def __init__(self, start: Any, duration: Any, name: Any, names: Any, tracks: Any, pid: Any, tid: Any) -> None: ...

class Marks:
    def __init__(self, visible: Any, group: Any, serial: Any, flow: Any) -> None: ...

class NamedValues:
    def __init__(self, first: Any, key: Any, kind: Any, value: Any, real: Any, text: Any, texts: Any) -> None: ...

class Writer:
    def drawn(
        self, events: Drawn, marks: Marks, place: tuple[int, int], most: int
    ) -> tuple[bytes, tuple[int, int]]: ...
    def flights(self, events: Drawn, marks: Marks, track: int) -> bytes: ...
    def told(
        self,
        events: Drawn,
        kept: Any,
        keys: Any,
        meta: Any,
        of_meta: NamedValues,
        own: NamedValues,
        found: NamedValues,
        place: tuple[int, int],
        most: int,
    ) -> tuple[bytes, tuple[int, int]]: ...
    def points(self, start: Any, values: NamedValues, count: int) -> bytes: ...
    def text(self, text: bytes) -> bytes: ...

def gnu_hash(text: bytes) -> int: ...
