"""Registers every benchmark as it is imported, for scripts that use seqio alone and for ``--module``.

The vocabulary is $T5X_LIKE_VOCABULARY, or T5's; the folder of the data $T5X_LIKE_DATA, or ``data``.
"""

from t5x_like.text.benchmarks import register

register()
