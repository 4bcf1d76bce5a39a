"""Integers to scores: JAX and Flax only; imports no TensorFlow, no seqio, no gin."""
