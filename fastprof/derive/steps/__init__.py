"""Steps: which events belong together, where a step begins and ends, and what its time is made of."""
