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
# # Fine-tune BERT on a GLUE task and write the submission
#
# SST-2 asks whether a sentence of a film review is positive. This notebook fine-tunes a BERT on it with the paper's recipe, scores it, and
# writes the file that GLUE's server takes.
#
# Nothing is downloaded: the model is a tiny BERT with fresh weights, and the rows are made here in the official files' format. With
# the real model and data, two paths change:
#
# ```bash
# huggingface-cli download bert-base-uncased --local-dir bert-base-uncased
# t5x-like data fetch glue
# ```

# %%
import logging
import os
import random
import shlex
import tempfile
import zipfile
from pathlib import Path

from t5x_like.cli.main import main

logging.basicConfig(level=logging.ERROR)
os.chdir(tempfile.mkdtemp())  # your project's folder
folder = Path()
data, bert, run = folder / "data", folder / "bert", folder / "run"


def command(line):
    """Run ``t5x-like`` as the shell would."""
    assert main(shlex.split(line)) == 0


# %% [markdown]
# ## The rows
#
# The official files are `train.tsv` and `dev.tsv` with a sentence and a label, and `test.tsv` with 1,821 sentences without.

# %%
draw = random.Random(0)
PRAISE = "wonderful brilliant charming clever moving funny gripping warm".split()
BLAME = "dull clumsy boring empty noisy tired hollow slow".split()
SUBJECTS = ["the plot", "every scene", "the ending", "this film", "the dialogue", "its hero", "the music"]


def sentence(label):
    feeling = draw.choice(PRAISE if label else BLAME)
    return f"{draw.choice(SUBJECTS)} is {draw.choice(['so', 'rather', 'always', 'truly'])} {feeling}"


sst2 = data / "glue/SST-2"
sst2.mkdir(parents=True)
for name, count in (("train", 600), ("dev", 100)):
    labels = [draw.randrange(2) for _ in range(count)]
    (sst2 / f"{name}.tsv").write_text(
        "sentence\tlabel\n" + "".join(f"{sentence(label)}\t{label}\n" for label in labels)
    )
truth = [draw.randrange(2) for _ in range(1821)]
(sst2 / "test.tsv").write_text(
    "index\tsentence\n" + "".join(f"{n}\t{sentence(label)}\n" for n, label in enumerate(truth))
)
print((sst2 / "train.tsv").read_text()[:150])

# %% [markdown]
# ## A BERT
#
# A Hugging Face directory holds `config.json`, the weights and the vocabulary. We write a tiny one; `bert-base-uncased` works in its place.

# %%
import jax

import t5x_like

sentences = folder / "sentences.txt"
sentences.write_text(
    "".join(line.split("\t")[0] + "\n" for line in (sst2 / "train.tsv").read_text().splitlines())
)
config = t5x_like.BertConfig(
    vocab_size=128,
    model_dim=64,
    mlp_dim=128,
    num_heads=4,
    num_layers=2,
    max_position_embeddings=64,
    task="masked_lm",
)
t5x_like.export_hugging_face(config.build(jax.random.key(0)), bert, config=config)
command(
    f"vocabulary learn --kind wordpiece --lower_case --size 120 --input {sentences} --output {bert}/vocab.txt"
)
sorted(path.name for path in bert.iterdir())

# %% [markdown]
# ## Training
#
# The recipe is the paper's. `--set` changes values: fewer steps and a higher rate for the tiny model, and float32 for a CPU. The head for two classes
# is new, and a warning would say so.

# %%
command(
    f"""train --gin_file=gin/recipes/bert/glue.gin --set TASK=sst2 --model_dir {run}
    --set INITIAL_CHECKPOINT={bert} --set DATA_DIR={data}
    --set TRAIN_STEPS=80 --set WARMUP_STEPS=8 --set LEARNING_RATE=0.002 --set DROPOUT_RATE=0.0
    --set INPUTS_LENGTH=16 --set COMPUTE_DTYPE=float32 --set REMAT=none --set LOG_EVERY_STEPS=20"""
)

# %% [markdown]
# ## Scores
#
# The development set has labels: accuracy with an interval, and the score of always giving the most frequent answer.

# %%
tasks = f"--tasks glue_sst2_v002 --data_dir {data} --batch_size 64"
command(f"evaluate --checkpoint {run} {tasks} --output_dir validation")

# %% [markdown]
# ## The submission
#
# The test split has no labels. Its rows are answered and written as the server wants them. The command also names the files of the other tasks,
# which the server needs for an average.

# %%
command(f"evaluate --checkpoint {run} {tasks} --output_dir test --submission glue.zip")

# %%
command("submission check glue.zip")
with zipfile.ZipFile("glue.zip") as archive:
    lines = archive.read("SST-2.tsv").decode().splitlines()
print("\n".join(lines[:4]))
answers = [int(line.split("\t")[1]) for line in lines[1:]]
share = sum(answer == label for answer, label in zip(answers, truth)) / len(truth)
print(f"we made the rows, so we know: {share:.1%} are right")

# %% [markdown]
# ## Next
#
# - All nine tasks: [recipes for BERT](../recipes/bert.md); `t5x-like submission make` joins their answers.
# - A small grid over learning rates and seeds: [fine-tuning](../guides/fine_tuning.md).
# - Your own table: [heads](../guides/heads.md).
