"""The viewer in a notebook cell: pages and timeline of a session, which stay in the saved notebook without a server."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from fastprof.errors import UsageError
from fastprof.viewer.html_report import write_html_report

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile

_LEAST_HEIGHT: Final = 200


class NotebookPage:
    """A page that a notebook shows as the output of a cell."""

    def __init__(self, document: str, title: str, height: int) -> None:
        self._document, self._title, self._height = document, title, height

    def _repr_html_(self) -> str:
        """Return a frame with the page. Its scripts cannot reach the notebook around it."""
        return (
            f'<iframe title="{escape(self._title)}" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {self._height}px; border: 1px solid #8888" '
            f'srcdoc="{escape(self._document)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<fastprof page of {self._title}: {len(self._document):,} letters; a notebook shows it>"


def show(profile: Profile, *analyses: str, height: int = 640) -> NotebookPage:
    """Return pages of these analyses and the timeline, for a notebook cell.

    ``analyses``: names such as ``"overview"``; none: the timeline alone. ``height``: pixels, at least 200. A page takes
    about 1 MB of the notebook file. UsageError: the height is too small, or the profile has several runs."""
    if height < _LEAST_HEIGHT:
        raise UsageError(f"height must be at least {_LEAST_HEIGHT} pixels, not {height}")
    reports = {name: report.answer for name, report in profile.reports_together(*analyses).items()} if analyses else {}
    title = profile.run or "session"
    document = b"".join(write_html_report(profile.select(), reports, title=title))
    return NotebookPage(document.decode("utf-8"), title, height)
