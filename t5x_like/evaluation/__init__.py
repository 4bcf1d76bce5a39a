"""Evaluation: plans, prompts, predictions, scores, suites and submissions."""
