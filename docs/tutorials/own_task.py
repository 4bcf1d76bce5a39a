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
# # A task of your own, by file and by seqio
#
# A text-to-text task words rows as inputs and targets. This notebook describes one task twice, by a table and by seqio, shows that
# both give the same tokens, trains a small T5 on it and scores it.

# %%
import logging
import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
logging.basicConfig(level=logging.ERROR)
os.chdir(tempfile.mkdtemp())  # your project's folder
folder = Path()

# %% [markdown]
# ## The rows
#
# A shipped table: definitions from WordNet, and the category of what they define.

# %%
from t5x_like.io.files import shipped_directory

table = shipped_directory("data") / "wordnet_definitions"
vocabulary = str(shipped_directory("data") / "vocabulary/spiece.model")
print("\n".join((table / "train.tsv").read_text().splitlines()[:4]))

# %% [markdown]
# ## By file
#
# Two templates word the columns. In gin it is the same: see [your own task](../guides/your_own_task.md).

# %%
import t5x_like
from t5x_like.text import registry

task = t5x_like.TextTask(
    name="definitions",
    vocabulary=vocabulary,
    files={split: str(table / f"{split}.tsv") for split in ("train", "validation")},
    input_template="definition: {definition}",
    target_template="{category}",
    labels=("animal", "artifact", "food", "person", "place", "plant"),
    metrics=("accuracy",),
)
registry.register([task])

# %% [markdown]
# ## By seqio
#
# Anything that seqio can express works by its name. `load_vocabulary` reads text literally: `<extra_id_0>` in a cell stays text.

# %%
import seqio
import tensorflow as tf

from t5x_like.text.metrics.by_name import metric_function
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary

registration.connect()  # makes seqio's tasks known; commands do it themselves


columns = (table / "train.tsv").read_text().splitlines()[0].split("\t")


def word(dataset):
    def one(line):
        cells = tf.strings.split(line, "\t")
        return {
            "inputs": tf.strings.join(["definition: ", cells[columns.index("definition")]]),
            "targets": cells[columns.index("category")],
        }

    return dataset.map(one)


seqio.TaskRegistry.add(
    "definitions_by_seqio",
    source=seqio.TextLineDataSource(
        {split: str(table / f"{split}.tsv") for split in ("train", "validation")}, skip_header_lines=1
    ),
    preprocessors=[word, seqio.preprocessors.tokenize, seqio.preprocessors.append_eos_after_trim],
    output_features={key: seqio.Feature(load_vocabulary(vocabulary)) for key in ("inputs", "targets")},
    metric_fns=[metric_function("accuracy", ())],
)

# %% [markdown]
# ## The same tokens
#
# The loader treats both alike.

# %%
import numpy as np

from t5x_like.text.batches.loader import build_loader
from t5x_like.text.vocabularies.opening import open_tokenizer


def first_batch(name):
    in_order = t5x_like.LoaderConfig(
        mixture=name,
        batch_size=32,
        inputs_length=64,
        targets_length=8,
        split="validation",
        shuffle=False,
        repeat=False,
    )
    return next(build_loader(in_order))


by_file, by_seqio = first_batch("definitions"), first_batch("definitions_by_seqio")
for name in ("encoder_input_tokens", "target_tokens"):
    np.testing.assert_array_equal(getattr(by_file, name), getattr(by_seqio, name))
tokenizer = open_tokenizer(vocabulary)
segment = by_file.encoder_segment_ids[0] == 1
print("the same;", int(by_file.encoder_segment_ids[0].max()), "examples share the first row")
print(tokenizer.decode([int(token) for token in by_file.encoder_input_tokens[0][segment]]))

# %% [markdown]
# ## Training and scores
#
# A few hundred steps at a high rate without dropout suit so small a model. The evaluation writes its answers word by word and scores them by the
# task's metric.

# %%
STEPS = 250
t5x_like.train(
    t5x_like.Experiment(
        model=t5x_like.T5Config(
            vocab_size=4224,
            model_dim=64,
            mlp_dim=128,
            num_heads=4,
            head_dim=16,
            num_encoder_layers=1,
            num_decoder_layers=1,
        ),
        data=t5x_like.TrainingData(
            tasks=(task,),
            train=t5x_like.LoaderConfig(
                mixture="definitions", batch_size=16, inputs_length=64, targets_length=8
            ),
            evaluations=(
                t5x_like.TaskEvaluation(mixture="definitions", inputs_length=64, targets_length=8, limit=300),
            ),
        ),
        optimizer=t5x_like.Adafactor(
            learning_rate=t5x_like.LinearWarmupLinearDecay(peak=0.03, warmup_steps=20, total_steps=STEPS)
        ),
        run=t5x_like.RunConfig(
            model_dir=str(folder / "run"),
            total_steps=STEPS,
            intervals=t5x_like.Intervals(
                log_every_steps=50, evaluate_every_steps=STEPS, save_every_steps=STEPS
            ),
        ),
    )
)

# %%
result = t5x_like.evaluate(folder / "run", limit=300)["definitions"]
print("scores:  ", result.scores)
print("baseline:", result.baseline, "(always the most frequent answer)")
for row in result.rows[:5]:
    print(row["target"], "|", row["prediction"])

# %% [markdown]
# ## Next
#
# - From the command line: `t5x-like tasks show NAME --gin_file=my.gin` and `t5x-like train --gin_file=my.gin`; seqio's tasks come by
#   `--module my_tasks`.
# - Start from a pretrained model: `start_from="path/to/t5-v1_1-small"` and `model=t5x_like.CheckpointModel()`.
# - A classification head on an encoder instead: [heads](../guides/heads.md).
