"""Comparison with recorded values of other implementations: ``python -m benchmarks.references DIR…``.

Each module compares one form of references. ``forms.py`` recognizes a form by what files hold, not by their names.
Tests call the same functions.
"""
