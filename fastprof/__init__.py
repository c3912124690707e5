"""Profiles of TensorFlow, JAX and PyTorch/XLA as Apache Arrow tables."""
