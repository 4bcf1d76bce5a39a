"""Learning from target tokens and labels alone."""

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model.families.encoder import Encoder
from t5x_like.model.families.family import Family
from t5x_like.training.methods.method import TrainingMethod


@config_class
class Supervised(TrainingMethod):
    """Minimizes the loss of target tokens and labels, which the model's heads and the data decide."""

    def defers_logits(self, model: Family, batch: Batch) -> bool:
        """Return whether logits are computed in parts: of encoders, which have targets at few positions, they are."""
        # A subclass with a loss of its own may read logits as an array.
        has_this_loss = type(self).compute_loss is TrainingMethod.compute_loss
        return (has_this_loss and isinstance(model, Encoder)) or super().defers_logits(model, batch)
