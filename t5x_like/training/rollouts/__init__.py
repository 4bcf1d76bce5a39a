"""Answers that the trained model writes before a step, their rewards, and the rows that it learns from."""
