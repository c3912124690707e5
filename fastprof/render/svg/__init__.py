"""Reports drawn, one module an analysis, each with ``draw(report)``, which gives an SVG document as text.

Texts of a trace are data: they are escaped, and cut where they would not fit. A drawing has no script, and refers to
nothing outside itself.
"""
