"""A training loop of your own over the library's parts: loader, model, state, step, checkpoint.

    python docs/examples/own_training_loop.py --steps 200

Trains a small GPT-2 on the King James Bible, saves its weights, and opens them again to predict a next word.
``t5x_like.training.train.train`` does the same, with logs, validation, hooks and resuming.
"""

import argparse

import jax
import numpy as np

from t5x_like import (
    AdamW,
    CausalLM,
    GPT2Config,
    LinearWarmupCosine,
    LoaderConfig,
    MeshConfig,
    PretrainingTask,
    Supervised,
    open_checkpoint,
)
from t5x_like.batch import Batch
from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.io.files import shipped_directory
from t5x_like.partitioning.shard import place
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.metrics import summarize
from t5x_like.training.state import empty, new_state, plan_state, shardings_of
from t5x_like.training.step import train_step

DATA = shipped_directory("data")
VOCABULARY = str(DATA / "vocabulary/spiece.model")


def main(model_dir: str, steps: int) -> None:
    # Data: batches of token ids, as numpy arrays, without end.
    task = PretrainingTask(
        name="bible",
        vocabulary=VOCABULARY,
        num_sentinels=0,
        files={"train": str(DATA / "king_james/train.txt")},
        objective=CausalLM(),
    )
    registry.register([task])
    loader = build_loader(LoaderConfig(mixture="bible", batch_size=16, inputs_length=64, targets_length=64))

    # The model, and a plan of the state: the shape of each array, and its place on the mesh of all devices.
    mesh = MeshConfig(data=-1).build()
    config = GPT2Config(
        vocab_size=4096, model_dim=128, mlp_dim=512, num_heads=4, num_layers=2, max_position_embeddings=64
    )
    schedule = LinearWarmupCosine(peak=1e-3, warmup_steps=steps // 10, total_steps=steps)
    plan = plan_state(config, AdamW(learning_rate=schedule), mesh, num_tasks=1)
    state = new_state(plan, config, seed=0)

    # One step is a pure function (state, batch) -> state; the state is a dict of arrays.
    step = jax.jit(
        train_step(plan, Supervised(), seed=0), donate_argnums=0, out_shardings=shardings_of(plan.abstract)
    )
    with jax.set_mesh(mesh), Checkpoints(model_dir) as checkpoints:
        for number, batch in zip(range(1, steps + 1), loader, strict=False):
            state = step(state, place(batch, mesh))
            if number % 20 == 0:
                print(f"step {number}  loss {summarize(state['totals'])['loss']:.3f}")
                state["totals"] = empty(plan.abstract["totals"])  # sums since the last line
        checkpoints.save(steps, state)
    write_model_config(model_dir, config)

    # The saved weights, as anything else opens them.
    tokenizer, text = open_tokenizer(VOCABULARY, 0), "In the beginning God created the heaven and the"
    inputs = np.array([[tokenizer.special.eos, *tokenizer.encode(text)]], np.int32)  # documents follow an end
    predictions = open_checkpoint(model_dir).model(Batch(decoder_input_tokens=inputs))
    print(text, "...", tokenizer.decode([int(predictions.logits[0, -1].argmax())]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model_dir", default="runs/my_gpt2")
    parser.add_argument("--steps", type=int, default=200)
    flags = parser.parse_args()
    main(flags.model_dir, flags.steps)
