"""The compiled core: thin wrappers that convert and own, and leave all logic to C and to Python."""
