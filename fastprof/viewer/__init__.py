"""The trace viewer: levels of detail, their cache, the server and its page."""
