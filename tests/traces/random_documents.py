"""Random traces of each writer: every phase, odd numbers and texts, any order of times, ids of any type."""

from __future__ import annotations

import json
import random
from typing import Any

TEXTS = ("a", "matmul", "é", "a\nb", 'say "x"', "\\", "日本", "\U0001f600", "", "x" * 300, "\x7f", "aten::mm", "\u2028")
NUMBERS = ("0", "-1", "7", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551615",
           "-9223372036854775808", "1.5", "-0.25", "1e3", "2.5E-7", "123456789.123456789", "3.0", "-0",
           "1180591620717411303424", "NaN", "-Infinity", "1e400")  # fmt: skip
ODD_TEXTS = (r'"\ud83d\ude00\/\b"', r'"x\ud800"', r'"\udc00\ud83dA"', '"\x01\t"', '"BAD BYTES"')
NUMBERS_AS_TEXT = ("5", "-7", "1.5", "1e3", "05", "+5", "0x1f", "nan", " 5", "18446744073709551615", "", "1_0")
DIALECTS = ("browser", "browser", "browser", "kineto", "kineto", "xprof", "tf1")
HOST_CATEGORIES = ("cpu_op", "Operator", "user_annotation", "cuda_runtime", "python_function", "overhead", "other")
DEVICE_CATEGORIES = ("kernel", "Kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync")
PROCESSES = {"browser": ("p", "q", "GPU 0"), "kineto": ("python", "GPU 0"), "xprof": ("/host:CPU", "/device:TPU:0"),
             "tf1": ("/cpu:0 Compute", "Allocators")}  # fmt: skip
NO_EVENTS = ('{"name" "b"}', "junk", '{"ph":"X","pid":1,"ts":tru}', '{"x":{"y":1}', '"a":1}', ":", "}", "]]")
"""What stands where an event should, and is not JSON. An event never begins in it."""


class Raw(str):
    """Source text that stands in the document as it is."""


class Twice(dict[str, Any]):
    """An object with one of its keys twice: the first time with this value."""

    earlier: tuple[str, Any] = ("", None)


def dialect_of(seed: int) -> str:
    return random.Random(seed).choice(DIALECTS)


def document(seed: int) -> bytes:
    """One document, object or array form."""
    return _Writer(seed).document()


def several_documents(seed: int) -> bytes:
    """Documents one after the other. Those of XProf name processes before their events, so only one comes alone."""
    parts = 1 if dialect_of(seed) == "xprof" else 3
    return b"\n".join(_Writer(seed, part).document() for part in range(parts))


def damaged_document(seed: int) -> tuple[bytes, bytes]:
    """An array with something between its events that is not JSON, and the same without."""
    writer = _Writer(seed)
    events = writer.events()
    places = sorted({1 + writer.choose.randrange(len(events)) for _ in range(2)})
    damaged = list(events)
    for place in reversed(places):
        damaged.insert(place, writer.choose.choice(NO_EVENTS))
    return _bytes("[" + ",".join([*damaged, _LAST]) + "]"), _bytes("[" + ",".join([*events, _LAST]) + "]")


_LAST = '{"ph":"X","pid":1,"tid":1,"ts":3,"dur":1,"name":"last"}'


def _bytes(text: str) -> bytes:
    return text.encode("utf8", "surrogatepass").replace(b"BAD BYTES", b"\xc3\xa9\xff\xe2\x82\xf0\x9f\x98")


class _Writer:
    def __init__(self, seed: int, part: int = 0) -> None:
        self.dialect = dialect_of(seed)
        self.choose = choose = random.Random(f"{seed} {part}")
        self.pids: list[Any] = [
            choose.choice([Raw(str(choose.randrange(5))), str(choose.randrange(5)), choose.choice(["GPU", "x y"])])
            for _ in range(3)
        ]
        if self.dialect == "kineto":
            self.pids = [Raw("7"), "7", Raw("8"), Raw("-1")]
        self.start = random.Random(seed).choice([0, 0, 5, 1_700_000_000_000_000])

    def events(self) -> list[str]:
        events = [self._event() for _ in range(self.choose.randrange(1, 40))]
        if self.dialect in ("xprof", "tf1"):
            name = self.choose.choice(PROCESSES[self.dialect])
            events.append(self._text({"ph": "M", "name": "process_name", "pid": self.pids[0], "args": {"name": name}}))
        self.choose.shuffle(events)
        return events

    def document(self) -> bytes:
        events = self.events()
        blank = self.choose.choice(["", " ", "\n", "\r\n\t "])
        body = "[" + blank + f"{blank},{blank}".join(events) + blank + "]"
        if self.choose.random() < 0.3 and self.dialect != "kineto":
            return _bytes(body)
        members = ['"otherData":{"version":"1"}', '"displayTimeUnit":"ms"', f'"traceEvents":{blank}{body}']
        members.append(self._text({"stackFrames": FRAMES})[1:-1])
        if self.dialect == "kineto":
            members.append('"schemaVersion":1')
        self.choose.shuffle(members)
        return _bytes("{" + f"{blank},{blank}".join(members) + "}")

    def _text(self, value: Any) -> str:
        if isinstance(value, Raw):
            return str(value)
        if isinstance(value, dict):
            items = [*value.items()]
            if isinstance(value, Twice):
                items.insert(0, value.earlier)
            return "{" + ",".join(f"{self._text(key)}: {self._text(item)}" for key, item in items) + "}"
        if isinstance(value, list):
            return "[" + " , ".join(map(self._text, value)) + "]"
        return json.dumps(value, ensure_ascii=self.choose.random() < 0.5)

    def _value(self, depth: int = 0) -> Any:
        kind = self.choose.randrange(9 if depth < 3 else 7)
        if kind < 2:
            return Raw(self.choose.choice(NUMBERS))
        if kind < 4:
            return self.choose.choice([*TEXTS, *(Raw(text) for text in ODD_TEXTS)])
        if kind < 6:
            return self.choose.choice([None, True, False])
        if kind == 6:
            return self.choose.choice(NUMBERS_AS_TEXT)
        if kind == 7:
            return [self._value(depth + 1) for _ in range(self.choose.randrange(4))]
        return self._twice({self.choose.choice(TEXTS): self._value(depth + 1) for _ in range(self.choose.randrange(4))})

    def _twice(self, value: dict[str, Any]) -> dict[str, Any]:
        if not value or self.choose.random() < 0.9:
            return value
        made = Twice(value)
        made.earlier = self.choose.choice(list(value)), Raw(self.choose.choice(NUMBERS[:8]))
        return made

    def _time(self) -> Any:
        whole = self.start + self.choose.randrange(1000)
        return self.choose.choice([
            Raw(str(whole)),
            Raw(f"{whole}.{self.choose.randrange(1000):03}"),
            Raw(f"{whole}.{self.choose.randrange(10**9):09}"),
            Raw(f"{whole * 10 + 5}e-1"),
            str(whole),
            *([Raw("NaN"), "soon", None, str(whole) + " "] if self.choose.random() < 0.05 else []),
        ])  # fmt: skip

    def _id(self) -> Any:
        return self.choose.choice([Raw("1"), "1", "0x1f", Raw("2"), Raw("1.0"), "01", Raw("18446744073709551616")])

    def _args(self, phase: str) -> Any:
        if phase == "C":
            names = self.choose.sample(["k", "n", "total", "bytes", ""], self.choose.randrange(4))
            return self._twice({name: self._value(3) for name in names})
        if self.choose.random() < 0.05:
            return self._value()
        names = self.choose.sample(ARGS[self.dialect], self.choose.randrange(4))
        made = {name: self._value() for name in names if name}
        if self.dialect in ("xprof", "tf1"):
            made |= {name: self.choose.choice(NUMBERS_AS_TEXT) for name in names if self.choose.random() < 0.5 and name}
        return self._twice(made)

    def _event(self) -> str:
        phase = self.choose.choice(PHASES)
        name = self.choose.choice([*TEXTS, "ProfilerStep#3", "Memcpy HtoD (Pageable -> Device)"])
        made: dict[str, Any] = {"ph": phase, "pid": self.choose.choice(self.pids), "name": name}
        if phase != "C" and self.choose.random() < 0.9:
            made["tid"] = self.choose.choice([Raw("1"), "1", Raw("2"), "main", Raw("-7")])
        if phase == "M":
            made |= {
                "name": self.choose.choice(["process_name", "thread_name"]),
                "args": {"name": self.choose.choice([*PROCESSES[self.dialect], "t"])},
            }
            return self._text(made)
        made["ts"] = self._time()
        if phase == "X" and self.choose.random() < 0.95:
            made["dur"] = self.choose.choice(
                [Raw(text) for text in ("0", "1", "0.001", "12.5", "900", "-2", "NaN")] + ["12.25"]
            )
        if self.choose.random() < 0.7:
            made["cat"] = self.choose.choice(HOST_CATEGORIES if self.dialect == "kineto" else ("c", "a,b", ""))
        if phase in "bneNODSTpFstf":
            made |= {"id": self._id(), "cat": "c"}
        if phase in "bne" and self.choose.random() < 0.2:
            made["id2"] = {self.choose.choice(["local", "global"]): self._id()}
            del made["id"]
        if phase in "STpF":
            made["id"] = Raw(self.choose.choice(["11", "12"]))
        self._fields(phase, made)
        if self.choose.random() < 0.8 or phase in "Tp":
            made["args"] = {"step": self.choose.choice(TEXTS)} if phase in "Tp" else self._args(phase)
        if self.dialect == "kineto" and phase == "X" and self.choose.random() < 0.4:
            self._on_device(made)
        keys = list(made)
        self.choose.shuffle(keys)
        return self._text(self._twice({key: made[key] for key in keys}) if phase == "X" else {k: made[k] for k in keys})

    def _fields(self, phase: str, made: dict[str, Any]) -> None:
        """Fields that some events have."""
        some = lambda share: self.choose.random() < share  # noqa: E731
        if phase in "bne" and some(0.2):
            made["scope"] = self.choose.choice(["s", "t"])
        if phase in "iI" and some(0.5):
            made["s"] = self.choose.choice("gpt")
        if phase == "f" and some(0.5):
            made["bp"] = "e"
        if phase in "XBi" and some(0.1):
            made |= {"cname": "good", "tts": self._time()}
        if phase in "XP" and some(0.1):
            made["sf"] = self.choose.choice([Raw("1"), "2", Raw("3"), "none"])
        elif phase in "XP" and some(0.1):
            made["stack"] = ["outer", "0x1", "é"]
        if phase in "XB" and some(0.15):
            made |= {"bind_id": self._id(), self.choose.choice(["flow_in", "flow_out"]): True}

    def _on_device(self, made: dict[str, Any]) -> None:
        device, stream = (self.choose.randrange(2) for _ in range(2))
        made |= {"cat": self.choose.choice(DEVICE_CATEGORIES), "pid": Raw(str(device)), "tid": Raw(str(stream))}
        args = {"device": Raw(str(device)), "stream": Raw(str(stream)), "correlation": Raw(self.choose.choice("123"))}
        if made["cat"] == "gpu_user_annotation":
            args = {}
        if made["cat"] in ("kernel", "Kernel"):
            args |= {"grid": Raw("[1, 2,3]"), "block": Raw("[4,5 ,6]"), "registers per thread": Raw("32"),
                     "shared memory": Raw("0"), "est. achieved occupancy %": Raw("50")}  # fmt: skip
        if made["cat"] == "gpu_memcpy":
            args |= {"bytes": Raw("4096")}
        made["args"] = args


PHASES = ["X"] * 9 + [*"BBEEiIRCbenMPNODSTpFstfVvc()"]
FRAMES = {
    "1": {"category": "c", "name": "main"},
    "2": {"name": "inné", "parent": Raw("1")},
    "3": {"name": "x", "parent": "2"},
}
ARGS = {
    "browser": ["k", "n", "tf_op", "é", "bytes", "Input Dims", "id", "s", "stack", "unfinished"],
    "kineto": ["External id", "Ev Idx", "Input Dims", "correlation_id", "k"],
    "xprof": ["step_num", "group_id", "device_offset_ps", "x_bytes", "flops", "hlo_op", "k"],
    "tf1": ["name", "op", "k"],
}
