"""Fine-tunes BERT, or another encoder, to classify texts: what does a dictionary's definition define?

    huggingface-cli download bert-base-uncased --local-dir bert-base-uncased
    python docs/examples/fine_tune_bert.py --checkpoint bert-base-uncased
    python docs/examples/fine_tune_bert.py --checkpoint bert-base-uncased --head_only    # the encoder stays frozen

The checkpoint is a Hugging Face directory or a run of ours. For a table of your own, change the task below.
"""

import argparse

import t5x_like
from t5x_like.io.files import shipped_directory

TABLES = shipped_directory("data") / "wordnet_definitions"


def experiment(
    checkpoint: str, model_dir: str, steps: int, *, head_only: bool = False
) -> t5x_like.Experiment:
    # A row has the columns "definition" (a text) and "category" (one of the labels).
    task = t5x_like.TextTask(
        name="definitions",
        vocabulary=checkpoint,  # its own tokenizer
        files={split: str(TABLES / f"{split}.tsv") for split in ("train", "validation")},
        input_template="{definition}",
        target_template="{category}",
        labels=("animal", "artifact", "food", "person", "place", "plant"),
        metrics=("accuracy", "macro_f1"),
    )
    rate = 1e-3 if head_only else 5e-5
    return t5x_like.Experiment(
        model=t5x_like.CheckpointModel(),  # the checkpoint's own, with a head for six classes
        start=t5x_like.PretrainedWeights(start_from=checkpoint),
        trainable=("heads/*",) if head_only else None,
        data=t5x_like.TrainingData(
            tasks=(task,),
            # layout="encoder": [CLS] text [SEP], and the label for the head.
            train=t5x_like.LoaderConfig(
                mixture=task.name, layout="encoder", batch_size=32, inputs_length=64, targets_length=2
            ),
            evaluations=(t5x_like.HeadEvaluation(mixture=task.name, inputs_length=64, batch_size=64),),
        ),
        optimizer=t5x_like.AdamW(
            learning_rate=t5x_like.LinearWarmupLinearDecay(
                peak=rate, warmup_steps=steps // 10, total_steps=steps
            )
        ),
        method=t5x_like.Supervised(loss=t5x_like.LossConfig(z_loss=0.0)),
        run=t5x_like.RunConfig(
            model_dir=model_dir,
            total_steps=steps,
            intervals=t5x_like.Intervals(log_every_steps=50, evaluate_every_steps=200, save_every_steps=200),
            hooks=(t5x_like.EarlyStopping(metric="evaluation/definitions/accuracy", mode="max", patience=3),),
        ),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--model_dir", default="runs/my_bert")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--head_only", action="store_true")
    flags = parser.parse_args()
    t5x_like.train(experiment(flags.checkpoint, flags.model_dir, flags.steps, head_only=flags.head_only))
