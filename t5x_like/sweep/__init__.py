"""Grids of training runs: processes, scores and the best setting."""
