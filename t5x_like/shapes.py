"""Dimension letters: the only legend.

Local arrays wear them as a suffix (``scores_BHLM``); public signatures repeat them in jaxtyping strings
(``Float[Array, "B L D"]``).

===  =========================================================
B    batch
L    query length (the sequence being written or read)
M    key length (the sequence being looked at)
D    model width (``model_dim``)
F    feed-forward width (``mlp_dim``)
H    attention heads (``num_heads``)
G    key/value heads (``num_kv_heads``)
K    width of one head (``head_dim``)
V    vocabulary (``vocab_size``)
N    layers (``num_layers``)
===  =========================================================
"""
