import subprocess
import sys

CONFIGURATION = (
    "t5x_like.text.batches.loader",
    "t5x_like.text.objectives.span_corruption",
    "t5x_like.text.tasks.mixtures",
    "t5x_like.text.tasks.pretraining",
    "t5x_like.text.registry",
    "t5x_like.text.seqio_bridge.task_examples",
    "t5x_like.text.tasks.text_task",
    "t5x_like.text.vocabularies.compare",
    "t5x_like.text.vocabularies.vocabulary_ids",
    "t5x_like.text.vocabularies.sentencepiece_training",
    "t5x_like.text.vocabularies.vocabulary_training",
    "t5x_like.text.vocabularies.opening",
    "t5x_like.text.seqio_bridge.seqio_vocabulary",
)

HEAVY = ("tensorflow", "seqio", "sentencepiece", "tokenizers", "tiktoken", "jax")


def test_modules_that_configurations_name_import_neither_tensorflow_nor_jax():
    program = (
        f"import {', '.join(CONFIGURATION)}, sys\n"
        "from t5x_like.text.tasks.text_task import TextTask\n"
        "files = {'train': 'a.tsv'}\n"
        "TextTask(name='a', vocabulary='bytes', files=files, input_template='{a}', target_template='{b}')\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
