"""Viewer: how does a browser show any number of events? Levels of detail, their cache, the server and its page."""

__all__ = ["access", "cache_folder", "html_report", "page_capture", "run_trends", "server", "viewed_runs"]
