"""Learning from target tokens and labels alone."""

from t5x_like.config_class import config_class
from t5x_like.training.methods.method import TrainingMethod


@config_class
class Supervised(TrainingMethod):
    """Minimizes the loss of target tokens and labels, which the model's heads and the data decide."""
