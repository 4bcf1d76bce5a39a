"""A run from fresh weights."""

from t5x_like.config_class import config_class
from t5x_like.training.start.start import Start


@config_class
class FreshWeights(Start):
    """Starts from weights that are drawn from the run's seed."""
