"""Earlier name of ``keyed_template``, which modules of users import."""

from t5x_like.text.benchmarks.keyed_template import KeyedTemplate as KeyedWording

__all__ = ["KeyedWording"]
