"""Types of the compiled module."""

from typing import final

from fastprof.schema.columns import Flags, Int32s, Int64s, UInt32s, UInt64s

@final
class Traced:
    def __new__(
        cls,
        start: UInt64s,
        duration: UInt64s,
        tracks: Int64s,
        points: Flags,
        flow: Int32s,
        flow_end: Flags,
        flow_count: int,
    ) -> Traced: ...
    def order(self, order: Int32s) -> None: ...
    def serials(self, order: Int32s, serial: UInt32s) -> None: ...
    def layers(self, order: Int32s, layer: Flags) -> None: ...
    def visible(
        self,
        order: Int32s,
        layer: Flags | None,
        hidden: Flags | None,
        begin: int,
        end: int,
        resolution: int,
        visible: Flags,
    ) -> None: ...
