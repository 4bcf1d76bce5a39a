"""Adapter for EleutherAI's lm-evaluation-harness (docs/guides/fine_tuning.md)."""
