"""Text to token ids: vocabularies, objectives, tasks and batches. Only ``seqio_bridge`` imports TensorFlow."""
