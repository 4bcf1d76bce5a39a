"""GLUE, SuperGLUE and other benchmarks, one file for each family; ``catalogue`` has them by name."""
