"""Dimension letters of arrays.

Names of local arrays end with them (``scores_BHLM``); signatures have them in jaxtyping strings
(``Float[Array, "B L D"]``).

===  =========================================================
B    batch
L    query length
M    key length
D    model width (``model_dim``)
F    feed-forward width (``mlp_dim``)
H    attention heads (``num_heads``)
G    key/value heads (``num_kv_heads``)
K    width of one head (``head_dim``)
V    vocabulary (``vocab_size``)
N    layers (``num_layers``)
===  =========================================================
"""
