"""What users of PyTorch read has no word of other frameworks and their compilers, but for what the trace recorded."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate import few
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.cli.main import main

KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"
TRACES = ("alexnet", "a100_rank-0", "h100_qwen", "large_integers", "resnet50_worker0")
FOREIGN = re.compile(
    r"(?<![A-Za-z0-9])(tensorflow|xprof|tfrt\w+|batchingsession\w+|keras|(?:torch_|stable)?(?:xla|hlo)|jax|tf[._-](?:data|function)|hlo[_-]stats)(?![A-Za-z0-9])",
    re.IGNORECASE,
)


def trace(name: str) -> str:
    path = KINETO / f"{name}.json.gz"
    if not path.exists():
        pytest.skip("no captures beside the project")
    return str(path)


def foreign(text: str) -> list[str]:
    """The foreign words of a text, with what surrounds them."""
    return [text[max(0, one.start() - 80) : one.end() + 80] for one in FOREIGN.finditer(text)]


def written(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main([*words])
    out, err = capsys.readouterr()
    return out + err


def texts(value: Any) -> Iterator[str]:
    """All texts of a JSON document but the names of analyses; names of members are no words."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if not (isinstance(one, str) and one in ANALYSES):
            yield from texts(one)


def test_foreign_words_are_seen() -> None:
    words = "An XLA op of tf.data; see hlo-stats, torch_xla, TensorFlow's hlo_stats."
    assert len(foreign(words)) == 6
    assert not foreign("relax, maxlab, hlops and tf.Data2 are other words")


@pytest.mark.parametrize("name", few(TRACES, 1))
@pytest.mark.parametrize("verb", [one.replace("_", "-") for one in ANALYSES])
def test_the_text_of_every_verb(name: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not foreign(written(capsys, verb, trace(name), "--wide"))


@pytest.mark.parametrize("name", few(TRACES, 2))
def test_all_reports_as_text_and_tables(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert not foreign(written(capsys, "report", trace(name), "--limit", "all"))
    written(capsys, "report", trace(name), "--format", "csv", "-o", str(tmp_path / "tables"))
    for path in (tmp_path / "tables").iterdir():
        assert not foreign(path.read_text()), path.name


@pytest.mark.parametrize("name", few(TRACES, 2))
def test_all_reports_as_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(written(capsys, "report", trace(name), "--format", "json"))
    assert list(document) == list(ANALYSES)
    assert not [one for text in texts(document) for one in foreign(text)]


@pytest.mark.parametrize("name", few(TRACES, 2))
def test_the_saved_pages(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Their data; what the page's own modules say, tests/browser examines."""
    target = tmp_path / "report.html"
    written(capsys, "report", trace(name), "--html", str(target))
    blocks = re.findall(
        r'<script type="application/(json|gzip)" id="data-([^"]+)">([^<]*)</script>', target.read_text()
    )
    data = {key: b64decode(text) if kind == "gzip" else text.encode() for kind, key, text in blocks}
    documents = {
        key: json.loads(gzip.decompress(one) if one[:2] == b"\x1f\x8b" else one)
        for key, one in data.items()
        if not key.startswith("tiles")
    }
    assert {key for key in documents if key.startswith("report-")} == {
        f"report-{one}" for one in ANALYSES if one not in ("hlo_stats", "memory_viewer", "tf_data", "inference")
    }
    for key, document in documents.items():
        assert not [one for text in texts(document) for one in foreign(text)], key


@pytest.mark.parametrize("verb", ["info", "events", "hlo"])
def test_the_other_verbs(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not foreign(written(capsys, verb, trace("alexnet")))


def test_analyses_of_programs_say_what_shows_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(written(capsys, "hlo-stats", trace("alexnet")).split())
    assert shown == (
        "PyTorch's profiler records no compiled programs. The reports op_stats and kernel_stats show its ops and "
        "kernels."
    )
    document = json.loads(written(capsys, "hlo-stats", trace("alexnet"), "--format", "json"))
    assert not any(table["rows"] for table in document["tables"].values())
    assert {one["reason"] for one in document["scalars"].values()} == {document["notices"][0]["text"]}


def test_an_xspace_that_was_written_of_a_trace_is_still_of_torch() -> None:
    threads = plane("/host:CPU", [line("main", [event("aten::add", 0, 5)])])
    for source, applies in (("Kineto JSON", False), ("XProf JSON", True)):
        environment = plane("Task Environment", stats={"transcribed_from": source})
        report = fastprof.load(xspace(threads, environment)).tf_data()
        assert (report.answer.inapplicable is None) == applies
