"""Training methods, one file for each: what a run minimizes, and the frozen models that it reads for that."""
