"""Training losses, one file for each kind; ``total`` adds those of tokens and of labels."""

from t5x_like.training.losses.sequences import MarginRanking
from t5x_like.training.losses.tokens import LossConfig, token_losses, weigh_tokens
from t5x_like.training.losses.total import Normalizers, measure, normalize, own_total, total, with_targets

__all__ = [
    "LossConfig",
    "MarginRanking",
    "Normalizers",
    "measure",
    "normalize",
    "own_total",
    "token_losses",
    "total",
    "weigh_tokens",
    "with_targets",
]
