"""EleutherAI's lm-evaluation-harness drives our checkpoints by this adapter (docs/guides/fine_tuning.md)."""
