"""Evaluation on benchmarks: any checkpoint, by writing, by ranking or by a head, with or without examples shown."""
