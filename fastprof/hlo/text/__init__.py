"""HLO as text, the way XLA prints it.

instruction_text.expression(module, row)         ``%add.1 = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)``
module_text.module_text(module, SHORT)           the whole module in pieces; LONG: with signatures and large constants
"""

__all__ = ["instruction_text", "module_text"]
