"""Words to integers: the only place for seqio and TensorFlow."""
