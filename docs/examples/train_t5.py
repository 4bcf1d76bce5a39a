"""Pretrains the quickstart's small T5 on a text file. The same command continues a run that was stopped.

python docs/examples/train_t5.py                                      # the King James Bible; minutes on a laptop
python docs/examples/train_t5.py --text my_corpus.txt --steps 2000    # a document on each line
"""

import argparse
from dataclasses import replace

import t5x_like
from t5x_like.io.files import shipped_directory

DATA = shipped_directory("data")
# 4,000 pieces and 100 sentinels, rounded up to a multiple of 128: 2.0 million parameters.
MODEL = t5x_like.T5Config(
    vocab_size=4224,
    model_dim=128,
    mlp_dim=320,
    num_heads=4,
    head_dim=32,
    num_encoder_layers=2,
    num_decoder_layers=2,
)


def experiment(text: str, validation: str, model_dir: str, steps: int) -> t5x_like.Experiment:
    task = t5x_like.PretrainingTask(
        name="my_text",
        vocabulary=str(DATA / "vocabulary/spiece.model"),
        files={"train": text, "validation": validation},
        objective=t5x_like.SpanCorruption(),
    )
    data = t5x_like.LoaderConfig(mixture=task.name, batch_size=16, inputs_length=128, targets_length=32)
    return t5x_like.Experiment(
        model=MODEL,
        data=t5x_like.TrainingData(
            tasks=(task,),
            train=data,
            validations=(replace(data, split="validation", shuffle=False, repeat=False),),
        ),
        optimizer=t5x_like.Adafactor(learning_rate=t5x_like.InverseSqrt(base=1.0, warmup_steps=300)),
        run=t5x_like.RunConfig(
            model_dir=model_dir,
            total_steps=steps,
            intervals=t5x_like.Intervals(log_every_steps=50, evaluate_every_steps=150, save_every_steps=300),
        ),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Pretrains a small T5 on a text file.")
    parser.add_argument("--text", default=str(DATA / "king_james/train.txt"))
    parser.add_argument("--validation", default=str(DATA / "king_james/validation.txt"))
    parser.add_argument("--model_dir", default="runs/my_t5")
    parser.add_argument("--steps", type=int, default=600)
    t5x_like.train(experiment(**vars(parser.parse_args())))
