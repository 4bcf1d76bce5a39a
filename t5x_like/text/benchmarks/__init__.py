"""GLUE, SuperGLUE and the other benchmarks, one file for each family of them; ``catalogue`` has them by name."""
