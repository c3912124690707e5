"""Which objects does a store hold, and what are their bytes? ``store_verbs`` has the verbs of a store; each client is a
module, and ``store_path`` chooses one by a URL."""

__all__ = ["kept_objects", "store_path", "store_verbs"]
