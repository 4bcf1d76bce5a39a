"""Looking inside trained models: vectors, neurons, probes and attention.

An analysis is a configuration with a method ``run``. It reads a model and rows of text, and returns numbers, tables and
pictures. ``t5x-like analyze`` writes them as a page.

>>> model = t5x_like.from_pretrained("path/to/bert")
>>> result = Anisotropy().run(model, rows_of(["a text", "and another one"]))
>>> result.values["layers"][-1]["mean_cosine"]
"""
