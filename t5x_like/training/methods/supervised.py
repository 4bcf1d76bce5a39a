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
        # A subclass of a method or of the model may read logits as an array.
        is_own = type(model) is Encoder and all(
            getattr(type(self), name) is getattr(TrainingMethod, name)
            for name in ("compute_loss", "measure", "total")
        )
        return is_own or super().defers_logits(model, batch)
