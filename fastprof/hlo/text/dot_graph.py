"""A neighbourhood as a graph in the language of Graphviz: a node an instruction, an edge a use."""

from __future__ import annotations

from collections.abc import Iterator

from fastprof.hlo.text.neighbourhood import Neighbourhood

_COLOURS = {
    "#90caf9": "async-start async-update async-done",
    "#bcaaa4": "all-gather all-gather-start all-gather-done all-reduce all-reduce-start all-reduce-done reduce-scatter "
    "all-to-all ragged-all-to-all collective-broadcast collective-permute collective-permute-start "
    "collective-permute-done infeed outfeed send send-done recv recv-done partition-id replica-id",
    "#5c6bc0": "convolution dot ragged-dot scaled-dot fft triangular-solve cholesky",
    "#66bb6a": "call conditional custom-call while",
    "#e0e0e0": "domain fusion map get-dimension-size set-dimension-size",
    "#c8e6c9": "concatenate dynamic-slice reshape dynamic-reshape reverse transpose copy copy-start copy-done",
    "#ffcc80": "parameter",
    "#ce93d8": "batch-norm-grad batch-norm-inference batch-norm-training reduce reduce-window scatter "
    "select-and-scatter gather",
    "#fff59d": "broadcast dynamic-update-slice",
}
_COLOUR_OF = {opcode: colour for colour, opcodes in _COLOURS.items() for opcode in opcodes.split()}
_OTHER = "#ffffff"


def dot_graph(around: Neighbourhood) -> Iterator[str]:
    """Operands above their users."""
    program = around.program
    yield "digraph neighbourhood {\n"
    title = f"{program.names[around.centre]} in {program.computation_names[around.computation]} of {program.name}"
    yield f'  label="{_quoted(title)}";\n  node [shape=box, style=filled, fontname="sans-serif"];\n'
    for row in around.rows():
        label = f"{program.names[row]}\n{program.opcodes[row]}\n{program.shape_text(program.shape_rows[row])}"
        colour = _COLOUR_OF.get(program.opcodes[row], _OTHER)
        edge = ", penwidth=3" if row == around.centre else ""
        yield f'  n{row} [label="{_quoted(label)}", fillcolor="{colour}"{edge}];\n'
    for operand, user in around.edges():
        yield f"  n{operand} -> n{user};\n"
    yield "}\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
