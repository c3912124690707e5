"""Viewer: how does a browser show any number of events? Levels of detail, their cache, the server and its page."""

__all__ = ["answers", "cache_folder", "html_report", "page_capture", "run_list", "server", "viewed_runs"]
