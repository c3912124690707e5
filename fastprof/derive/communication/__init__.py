"""Communication of devices: what is on the way between them and to the host, and how much of it compute hides."""
