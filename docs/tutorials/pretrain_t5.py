# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Pretrain a T5 on your own text
#
# You have a text file with a document on each line. This notebook learns a vocabulary from it, shows what span
# corruption makes of it, trains a small T5, and looks inside the result.
#
# The settings are tiny, so that everything runs on a laptop's CPU in under a minute. For a real run change the sizes, the
# number of steps and the file; the code stays the same.

# %%
import logging
import os
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path

logging.basicConfig(level=logging.ERROR)
os.chdir(tempfile.mkdtemp())  # your project's folder
folder = Path()
text, held_out = folder / "train.txt", folder / "validation.txt"

# %% [markdown]
# ## The text
#
# Here the "own text" is 300 chapters of the King James Bible, which is shipped. Point the two paths at your files instead.

# %%
from t5x_like.io.files import shipped_directory

chapters = (shipped_directory("data") / "king_james/train.txt").read_text().splitlines()
text.write_text("\n".join(chapters[:300]) + "\n")
held_out.write_text("\n".join(chapters[300:330]) + "\n")
print(f"{len(text.read_text().split()):,} words; the first: {chapters[0][:60]} …")

# %% [markdown]
# ## A vocabulary from the text
#
# `t5x-like vocabulary learn` is a command. A notebook can run every command by `main`.

# %%
from t5x_like.cli.main import main


def command(line):
    """Run ``t5x-like`` as the shell would."""
    assert main(shlex.split(line)) == 0


vocabulary = "spiece.model"
command(f"vocabulary learn --kind unigram --size 900 --input {text} --output {vocabulary}")
command(f"vocabulary show {vocabulary} --text 'In the beginning God created the heaven'")

# %% [markdown]
# ## The task
#
# A task joins files, a vocabulary and an objective. Span corruption removes 15 % of the tokens in spans of three; the model writes what
# is missing. Look at a few examples before you train.

# %%
import t5x_like
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.vocabularies.opening import open_tokenizer

task = t5x_like.PretrainingTask(
    name="my_text",
    vocabulary=vocabulary,
    files={"train": str(text), "validation": str(held_out)},
    objective=t5x_like.SpanCorruption(noise_density=0.15, mean_noise_span_length=3.0),
)
registry.register([task])
data = t5x_like.LoaderConfig(mixture="my_text", batch_size=16, inputs_length=64, targets_length=24)
batch = next(build_loader(data))
tokenizer = open_tokenizer(vocabulary)


def words(ids):
    return " ".join(tokenizer.piece(int(token)) for token in ids if token > 0).replace("▁", "")


print("the encoder reads: ", words(batch.encoder_input_tokens[0]))
print("the decoder writes:", words(batch.target_tokens[0]))

# %% [markdown]
# ## The run
#
# An `Experiment` is one frozen value with everything that decides the result. `train` runs it, and continues it when it was
# stopped.

# %%
STEPS = 80
experiment = t5x_like.Experiment(
    model=t5x_like.T5Config(
        vocab_size=1024,  # 900 pieces and 100 sentinels, rounded up to a multiple of 128
        model_dim=64,
        mlp_dim=128,
        num_heads=4,
        head_dim=16,
        num_encoder_layers=2,
        num_decoder_layers=2,
    ),
    data=t5x_like.TrainingData(
        tasks=(task,),
        train=data,
        validations=(replace(data, split="validation", shuffle=False, repeat=False),),
    ),
    optimizer=t5x_like.Adafactor(learning_rate=t5x_like.InverseSqrt(base=1.0, warmup_steps=60)),
    run=t5x_like.RunConfig(
        model_dir=str(folder / "run"),
        total_steps=STEPS,
        intervals=t5x_like.Intervals(log_every_steps=20, evaluate_every_steps=40, save_every_steps=STEPS),
    ),
)
t5x_like.train(experiment)
sorted(path.name for path in (folder / "run").iterdir())

# %% [markdown]
# ## The learning curve
#
# The dashed line would be reached by a model that knows only how frequent each token is.

# %%
import matplotlib.pyplot as plt
import numpy as np

from t5x_like.io.files import read_jsonl
from t5x_like.reports.curves import read_curves

logged = list(read_jsonl(folder / "run/metrics.jsonl"))
entropy = [line["unigram_entropy"] for line in logged if "unigram_entropy" in line][-1]

figure, axes = plt.subplots(figsize=(6, 3), dpi=110, layout="constrained")
for curve in read_curves(folder / "run"):
    axes.plot(curve.steps, curve.losses, marker="o", label="validation" if curve.held_out else "training")
axes.axhline(entropy, linestyle="--", color="grey", label="frequencies only")
axes.set(xlabel="step", ylabel="nats per token")
axes.legend()
plt.show()

# %% [markdown]
# ## A look inside
#
# The run directory opens like any other checkpoint. After so few steps the model knows which words are frequent and little
# more. With more steps and text the same cells show a model that has learned something.

# %%
from t5x_like.reports.weight_table import weight_table

print("\n".join(weight_table(experiment.model).splitlines()[:14]))

# %%
pretrained = t5x_like.from_pretrained(folder / "run")
print(pretrained)
guesses = np.asarray(pretrained.model(batch).logits).argmax(-1)
is_target = batch.loss_weights > 0
right = (guesses == batch.target_tokens)[is_target].mean()
print(f"with the right tokens before it, the model predicts {right:.0%} of the missing tokens")
print("missing:  ", words(batch.target_tokens[0]))
print("predicted:", words(guesses[0][is_target[0]]))

# %% [markdown]
# `generate` fills the gap of a text by beam search, with the sentinel `<extra_id_0>` for what is missing. Text of users is literal,
# so the sentinel is put in as an id.

# %%
start, end = (tokenizer.encode(part) for part in ("And God said,", "and there was light."))
prompt = [*start, tokenizer.vocab_size - 1, *end, tokenizer.special.eos]
generated = pretrained.generate(np.array([prompt]), max_new_tokens=8, num_beams=4)
print(pretrained.decode(generated))

# %% [markdown]
# ## Next
#
# - The same from the command line: `t5x-like train --gin_file=gin/recipes/t5_1_1/pretrain_base.gin --set TRAIN_FILES=…`.
# - Other objectives: one line changes, see [objectives](../guides/objectives.md).
# - [Fine-tune](fine_tune_bert.ipynb) what you trained.
