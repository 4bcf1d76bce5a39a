"""What encoder-decoders call the heads that make no words."""

from t5x_like.model.heads import HeadsConfig
from t5x_like.model.zoo.weights import Weight, dense


def score_rows(heads: HeadsConfig) -> list[Weight]:
    """The heads for classes, choices and answers, under the names of BART's classes, which T5's have too."""
    rows = []
    for scores in heads.scores:
        ours = f"heads/scores/{scores.name}"
        if scores.reads == "pooled":
            theirs = "classification_head" if scores.name == "sequence_classification" else "choice_head"
            rows += dense(f"{ours}/transform/dense", f"{theirs}.dense")
            rows += dense(f"{ours}/projection", f"{theirs}.out_proj")
        else:
            rows += dense(
                f"{ours}/projection", "qa_outputs" if scores.name == "question_answering" else "classifier"
            )
    return rows
