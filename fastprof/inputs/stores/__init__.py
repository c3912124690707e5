"""List, read and write the objects of a store. ``store_verbs`` defines the verbs, each client is a module, and
``store_path`` chooses a client by URL."""

__all__ = ["kept_objects", "store_path", "store_verbs"]
