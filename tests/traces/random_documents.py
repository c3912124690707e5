"""Random Chrome traces: every phase, odd numbers and texts, any order of times, pids that are numbers or texts."""

from __future__ import annotations

import json
import random
from typing import Any

TEXTS = ("a", "matmul", "é", "a\nb", 'say "x"', "\\", "日本", "\U0001f600", "", "x" * 300, "\x7f", "aten::mm", "\u2028")
NUMBERS = ("0", "-1", "7", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551615",
           "-9223372036854775808", "1.5", "-0.25", "1e3", "2.5E-7", "123456789.123456789", "3.0", "-0")  # fmt: skip


class Raw(str):
    """Source text that stands in the document as it is."""


def document(seed: int) -> bytes:
    """One document, object or array form."""
    return _Writer(random.Random(seed)).document()


class _Writer:
    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.pids = [
            choose.choice([Raw(str(choose.randrange(5))), str(choose.randrange(5)), choose.choice(["GPU", "x y"])])
            for _ in range(3)
        ]
        self.start = choose.choice([0, 0, 5, 1_700_000_000_000_000])

    def document(self) -> bytes:
        events = [self._event() for _ in range(self.choose.randrange(1, 40))]
        self.choose.shuffle(events)
        blank = self.choose.choice(["", " ", "\n", "\r\n\t "])
        body = "[" + blank + f"{blank},{blank}".join(events) + blank + "]"
        if self.choose.random() < 0.3:
            return body.encode()
        before = f'"otherData":{blank}{{"version":{blank}"1"}},'
        after = f',{blank}"displayTimeUnit":"ms"'
        return (
            "{"
            + self.choose.choice(["", before])
            + f'"traceEvents":{blank}{body}'
            + self.choose.choice(["", after])
            + "}"
        ).encode()

    def _text(self, value: Any) -> str:
        if isinstance(value, Raw):
            return str(value)
        if isinstance(value, dict):
            return "{" + ",".join(f"{self._text(key)}: {self._text(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + " , ".join(map(self._text, value)) + "]"
        return json.dumps(value, ensure_ascii=self.choose.random() < 0.5)

    def _value(self, depth: int = 0) -> Any:
        kind = self.choose.randrange(8 if depth < 3 else 6)
        if kind < 2:
            return Raw(self.choose.choice(NUMBERS))
        if kind < 4:
            return self.choose.choice(TEXTS)
        if kind < 6:
            return self.choose.choice([None, True, False])
        if kind == 6:
            return [self._value(depth + 1) for _ in range(self.choose.randrange(4))]
        return {self.choose.choice(TEXTS): self._value(depth + 1) for _ in range(self.choose.randrange(4))}

    def _time(self) -> Any:
        whole = self.start + self.choose.randrange(1000)
        return self.choose.choice([
            Raw(str(whole)),
            Raw(f"{whole}.{self.choose.randrange(1000):03}"),
            Raw(f"{whole}.{self.choose.randrange(10**9):09}"),
            str(whole),
        ])  # fmt: skip

    def _args(self, numbers: bool = False) -> dict[str, Any]:
        names = self.choose.sample(["k", "n", "tf_op", "é", "bytes", "Input Dims", ""], self.choose.randrange(4))
        return {
            name: Raw(self.choose.choice(NUMBERS[:6])) if numbers else self._value()
            for name in names
            if name or numbers
        }

    def _event(self) -> str:
        phase = self.choose.choice(
            ["X"] * 8 + ["B", "B", "E", "E", "i", "I", "C", "b", "e", "n", "M", "P", "N", "O", "D"]
        )
        made: dict[str, Any] = {"ph": phase, "pid": self.choose.choice(self.pids), "name": self.choose.choice(TEXTS)}
        if phase != "C" and self.choose.random() < 0.9:
            made["tid"] = self.choose.choice([Raw("1"), "1", Raw("2"), "main", Raw("-7")])
        if phase == "M":
            made |= {
                "name": self.choose.choice(["process_name", "thread_name"]),
                "args": {"name": self.choose.choice(["p", "q", "GPU 0", "t"])},
            }
            return self._text(made)
        made["ts"] = self._time()
        if phase == "X":
            made["dur"] = Raw(self.choose.choice(["0", "1", "0.001", "12.5", "900"]))
        if self.choose.random() < 0.7:
            made["cat"] = self.choose.choice(["c", "a,b", ""])
        if phase in "bneNOD":
            made |= {"id": self.choose.choice([Raw("1"), "1", "0x1f", Raw("2")]), "cat": "c"}
        if self.choose.random() < 0.8:
            made["args"] = self._args(phase == "C")
        keys = list(made)
        self.choose.shuffle(keys)
        return self._text({key: made[key] for key in keys})
