"""Memory of devices and of hosts, by their allocators: what a capture tells of each allocation and free."""
