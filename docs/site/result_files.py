"""Files in ``benchmarks/results``, as the page of results shows them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """How a results file is shown.

    Attributes:
      name: file name without its ending.
      title: heading.
      words: sentences above the table.
      rows: path to the object whose members are rows, such as ``("runs",)``; its members are objects.
      columns: heading -> path in a row's object.
      picture: name in ``docs/pictures``, without "_light.svg".
    """

    name: str
    title: str
    words: str
    rows: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    picture: str = ""


_PLAN_COLUMNS: dict[str, tuple[str, ...]] = {
    "devices": ("plan", "topology"),
    "mesh": ("plan", "mesh"),
    "remat": ("plan", "remat"),
    "rows": ("plan", "batch_size"),
    "peak, bytes": ("plan", "memory", "peak_bytes"),
    "seconds, at least": ("plan", "time", "overlapped", "seconds_per_step"),
}

FILES = (
    ResultFile(
        name="quickstart_cpu",
        title="Quickstart",
        words="`make quickstart` after set-up, on two CPU cores: a T5 of 2 million parameters learns span corruption "
        "on the King James Bible (the picture), then two tasks (the table). The dashed line is the loss of a model "
        "that knows only how frequent each token is.",
        rows=("tasks",),
        columns={"scores": ("scores",), "baseline": ("baseline",), "rows": ("rows",)},
        picture="learning_curve",
    ),
    ResultFile(
        name="guide_task_cpu",
        title="A task of your own, in four minutes",
        words="The recipe of [your own task](guides/your_own_task.md): a T5 of 2 million parameters learns from "
        "fresh weights, on two busy CPU cores, what a dictionary definition defines. The baseline is the most "
        "frequent answer.",
        rows=("runs",),
        columns={
            "accuracy, %": ("scores", "accuracy"),
            "baseline, %": ("baseline", "accuracy"),
            "rows": ("examples",),
            "minutes": ("minutes",),
        },
    ),
    ResultFile(
        name="glue_minilm_cpu",
        title="GLUE with MiniLM",
        words="Fine-tuning of MiniLM (6 layers of 384) with a classification head on two CPU cores, scored on the "
        "development sets. The recipes are those of [GLUE on a CPU](recipes/glue.md).",
        rows=("runs",),
        columns={
            "scores": ("scores",),
            "baselines": ("baselines",),
            "steps": ("steps",),
            "minutes": ("minutes",),
        },
    ),
    ResultFile(
        name="objectives_cpu",
        title="Every objective learns",
        words="Tiny models on the shipped text, a few hundred to 2,000 steps. A held-out loss below its baseline shows "
        "that the objective's data, mask and loss fit together. The baseline knows only how frequent each target is.",
        rows=(),
        columns={
            "steps": ("steps",),
            "held-out losses (nats), with baselines": ("losses",),
            "accuracy": ("accuracy",),
        },
        picture="objectives",
    ),
    ResultFile(
        name="word_vectors_cpu",
        title="Word vectors",
        words="word2vec and GloVe on the King James Bible (5,140 words, 858,450 words of text), and 1,614 analogies of "
        "its grammar. The baseline is random vectors. The [guide](guides/word_vectors.md) has the settings.",
        rows=("runs",),
        columns={
            "accuracy, %": ("accuracy",),
            "by section": ("sections",),
            "epochs": ("epochs",),
            "minutes": ("minutes",),
        },
    ),
    ResultFile(
        name="input_speed_cpu",
        title="Sequences a second from one core",
        words="Training sequences of 512 tokens a second from a [token cache](guides/cache.md) on one CPU core, "
        "next to span corruption by seqio and tf.data in the same sitting.",
        rows=("objectives",),
        columns={"sequences a second": ("sequences_per_second",), "times seqio": ("times_the_reference",)},
    ),
    ResultFile(
        name="corpus_speed_cpu",
        title="C4's rules",
        words="Megabytes of page text a second through C4's line and page rules on one CPU core, next to a plain "
        "version with NLTK's sentences.",
        rows=("measurements",),
        columns={
            "measured": ("what",),
            "MB/s": ("megabytes_per_second",),
            "plain version": ("reference_megabytes_per_second",),
        },
    ),
    ResultFile(
        name="step_memory_cpu",
        title="Memory of long sequences",
        words="Temporary memory in GiB, as the compiler plans it, by how many GiB the process grew, and seconds of a "
        "training step on one row with plain and blockwise attention: models of width 128, float32, busy cores. Steps "
        "without seconds were compiled only.",
        rows=("attention",),
        columns={
            "plain": ("plain", "temporary_gib"),
            "grew": ("plain", "measured_gib"),
            "seconds": ("plain", "seconds"),
            "blockwise": ("blockwise", "temporary_gib"),
            "grew, blockwise": ("blockwise", "measured_gib"),
            "seconds, blockwise": ("blockwise", "seconds"),
        },
    ),
    ResultFile(
        name="step_memory_context_cpu",
        title="Memory of one row on several devices",
        words="Temporary memory of each device in GiB, as the compiler plans it, for a training step of a LLaMA of 2 "
        "layers and width 128 on one row of 32,768 tokens, which so many devices share.",
        rows=("context",),
        columns={"GiB": ("temporary_gib",)},
    ),
    ResultFile(
        name="tuning_minilm_cpu",
        title="Ways of tuning MiniLM",
        words="MiniLM of 22.7 million parameters, tuned by the recipes in `gin/recipes/tuning`: mean of the seeds "
        "and their standard deviation. "
        "A run takes 250 steps on SST-2 (accuracy), 150 on STS-B (Pearson), 800 on CoLA (Matthews) and 200 on RTE "
        "(accuracy), each with three seeds. Seconds of a step, memory of the process and checkpoints are "
        "those of SST-2. See [tuning](guides/tuning.md#which-method).",
        rows=("methods",),
        columns={
            "SST-2": ("sst2",),
            "STS-B": ("stsb",),
            "CoLA": ("cola",),
            "RTE": ("rte",),
            "trained": ("trained_parameters",),
            "seconds of a step": ("median_step_seconds",),
            "MiB": ("peak_mib",),
            "checkpoint, MiB": ("checkpoint_mib",),
        },
    ),
    ResultFile(
        name="distillation_minilm_cpu",
        title="Distillation",
        words="SST-2 accuracy of MiniLM and of its student of three layers, with and without the teacher: see "
        "[distillation](guides/tuning.md#distillation). Each run saw 16,000 rows; means of three seeds. No gain "
        "from the teacher shows.",
        rows=("stages",),
        columns={"accuracy, %": ("accuracy",), "standard deviation": ("std",), "rows": ("rows",)},
    ),
    ResultFile(
        name="layer_probes_cpu",
        title="Probes of layers",
        words="Accuracy of a linear classifier on the hidden states of a frozen model, from the input of the first "
        "layer to the output of the last: see [`layer_probes.py`](../benchmarks/layer_probes.py).",
        rows=(),
        columns={
            "parts of speech, %": ("parts of speech", "layers"),
            "most frequent, %": ("parts of speech", "most frequent class"),
            "kinds of things, %": ("kinds of things", "layers"),
            "most frequent kind, %": ("kinds of things", "most frequent class"),
        },
    ),
    ResultFile(
        name="huge_pages_cpu",
        title="Huge pages",
        words="Training steps on a CPU with `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` and without: medians of processes "
        "in turn.",
        rows=("recipes",),
        columns={
            "seconds": ("as it is", "step_seconds"),
            "seconds, huge pages": ("huge pages", "step_seconds"),
            "ratio": ("ratio_of_seconds",),
            "page faults": ("as it is", "page_faults"),
            "page faults, huge pages": ("huge pages", "page_faults"),
            "MiB": ("as it is", "peak_mib"),
            "MiB, huge pages": ("huge pages", "peak_mib"),
        },
    ),
    ResultFile(
        name="accelerator_h200",
        title="Train steps on one H200",
        words="bfloat16 with AdamW, remat `minimal`, attention by cuDNN, layers one after another, full rows of random "
        "tokens: 512 + 128 of T5, 512 of BERT, 2,048 of LLaMA. PyTorch is transformers in eager mode with autocast, "
        "with as many rows as fit. Ratio: tokens a second. See [on a GPU](performance.md#on-a-gpu).",
        rows=("models",),
        columns={
            "commit": ("commit",),
            "parameters": ("train", "parameters"),
            "rows": ("train", "rows"),
            "seconds of a step": ("train", "seconds_per_step", "median"),
            "tokens a second": ("train", "tokens_per_second"),
            "model FLOPs utilization": ("train", "model_flops_utilization"),
            "peak GiB": ("train", "memory", "device_peak_gib"),
            "rows, PyTorch": ("pytorch_train", "rows"),
            "tokens a second, PyTorch": ("pytorch_train", "tokens_per_second"),
            "ratio": ("train_speedup",),
        },
    ),
    ResultFile(
        name="accelerator_decode_h200",
        title="Generation on one H200",
        words="Greedy, 128 tokens after each of 32 prompts of 128 tokens, weights in bfloat16. PyTorch is "
        "transformers' `generate` with a cache.",
        rows=("models",),
        columns={
            "seconds": ("decode", "seconds"),
            "new tokens a second": ("decode", "tokens_per_second"),
            "new tokens a second, PyTorch": ("pytorch_decode", "tokens_per_second"),
            "ratio": ("decode_speedup",),
        },
    ),
    ResultFile(
        name="accelerator_agreement_h200",
        title="Gradients with attention by cuDNN",
        words="Of two layers of each stack, in bfloat16 on one H200: relative to plain attention in float32, for rows "
        "with padding and for packed rows.",
        rows=("models",),
        columns={
            "padding": ("agreement", "padding"),
            "packed": ("agreement", "packed"),
        },
    ),
    ResultFile(
        name="accelerator_changes_h200",
        title="Changes of train steps on one H200",
        words="The steps of the table above while the code changed. Position and type embeddings have their gradient "
        "by a sum and a product since the second commit; before, adding tokens to a few rows one by one took 113 of "
        "BERT's 329 ms.",
        rows=("steps",),
        columns={
            "commit": ("commit",),
            "layers": ("layers",),
            "compiled in, s": ("compile_seconds",),
            "seconds of a step": ("seconds_per_step",),
            "at least, of its program": ("least_seconds_per_step",),
            "model FLOPs utilization": ("model_flops_utilization",),
            "peak GiB": ("device_peak_gib",),
        },
    ),
    ResultFile(
        name="accelerator_kernels_h200",
        title="Kernels of a train step on one H200",
        words="Milliseconds of the steps above by kind of kernel, from JAX's profiler.",
        rows=("models",),
        columns={
            "commit": ("commit",),
            "products": ("products_ms",),
            "attention": ("attention_ms",),
            "copies": ("copies_ms",),
            "norms, activations, optimizer and others": ("others_ms",),
        },
    ),
    ResultFile(
        name="attention_h200",
        title="Attention of one layer on one H200",
        words="In bfloat16; T5: 64 rows of 512, 16 heads of 64, with a bias; LLaMA: 8 causal rows of 2,048, 32 heads "
        "of 64 that share 4 keys and values. Mask: an array that separates two examples. Lengths: those of rows. "
        "Errors: of the gradients of queries, keys, values and the bias, relative to plain attention in float32, by "
        "the implementation and by plain attention in bfloat16.",
        rows=("layers",),
        columns={
            "forward, ms": ("forward_ms",),
            "gradient, ms": ("gradient_ms",),
            "errors": ("gradient_errors",),
            "of plain": ("gradient_errors_of_plain",),
        },
    ),
    ResultFile(
        name="accelerator_plans",
        title="The same steps, planned",
        words="What [`t5x-like plan`](guides/plan.md) says of the four models above on one H200: compiled without one.",
        rows=(),
        columns=_PLAN_COLUMNS,
    ),
    ResultFile(
        name="attention_kernels",
        title="Attention compiled for TPUs",
        words="Attention of one layer, forward and backward in bfloat16, compiled for one chip and never run: the T5's "
        "12 heads of 64 with its bias, the LLaMA's 16 causal heads of 128 that share 4 keys and values. Bytes and "
        "FLOPs inside kernels are those that kernels state. Milliseconds are a lower bound at the data sheet's "
        "figures. Cycles are those of the compiler's schedule for one pair of blocks of 512.",
        rows=("runs",),
        columns={
            "peak MiB": ("peak_mib",),
            "GB moved": ("memory_gb",),
            "ms, at least": ("least_ms",),
            "cycles of a pair": ("cycles",),
        },
    ),
    ResultFile(
        name="attention_plans",
        title="Train steps by implementation of attention",
        words="What [`t5x-like plan`](guides/plan.md) says of one of 4 chips (v5e:2x2, `data=4`): T5 1.1 base, 128 "
        "rows with remat `minimal`; a LLaMA of 24 layers, width 1,024 and 8 heads of 128, 4 rows with remat `full`. "
        "Compiled, never run.",
        rows=(),
        columns={
            "peak, bytes": ("plan", "memory", "peak_bytes"),
            "bytes moved": ("plan", "program", "memory_bytes"),
            "seconds, at least": ("plan", "time", "overlapped", "seconds_per_step"),
        },
    ),
    ResultFile(
        name="expert_plans",
        title="Fewer experts than chips",
        words="What [`t5x-like plan`](guides/plan.md) says of one of 64 chips (v5e:8x8) in a step of 1,282,048 "
        "positions: Switch-Base with 8 experts a layer. See [experts](sharding.md#experts). Compiled, never run.",
        rows=(),
        columns={
            "peak, bytes": ("plan", "memory", "peak_bytes"),
            "bytes sent": ("plan", "program", "sent_bytes"),
            "seconds, at least": ("plan", "time", "overlapped", "seconds_per_step"),
            "without overlap": ("plan", "time", "not_overlapped", "seconds_per_step"),
        },
    ),
    ResultFile(
        name="recipe_scores_cpu",
        title="Small recipes of tuning",
        words="Scores on validation rows, one for each seed, next to those of the most frequent answer. Seconds are "
        "those of a run on one core. `after` names the run whose weights it starts from.",
        rows=(),
        columns={
            "after": ("after",),
            "seconds": ("seconds",),
            "scores": ("scores",),
            "baselines": ("baselines",),
        },
    ),
    ResultFile(
        name="translation_cpu",
        title="A small translator",
        words="BLEU of the handbook's 507 test sentences, English to German, one seed, of models that are trained on "
        "its 3,985 pairs alone: that of the last checkpoint, and of the average of the last five. Copies of the "
        "sources have 6.5. See [translation](guides/translation.md).",
        rows=("models",),
        columns={
            "BLEU": ("last", "bleu"),
            "of the average": ("average_of_5", "bleu"),
            "minutes of training": ("training_minutes",),
        },
    ),
    ResultFile(
        name="against_pytorch_cpu",
        title="Compared with PyTorch",
        words="How many times as fast as transformers in PyTorch: the same weights and tokens in one run, in "
        "float32 on two CPU cores, both with tcmalloc. 16 rows; 128 tokens, 32 targets for the T5, 32 generated "
        "tokens. Below 1, PyTorch is faster.",
        rows=("models",),
        columns={
            "parameters": ("parameters",),
            "train step": ("speedup", "train"),
            "forward": ("speedup", "forward"),
            "greedy": ("speedup", "greedy"),
            "beams of 4": ("speedup", "beam_4"),
            "greedy ids that agree": ("agreement", "equal_greedy_ids"),
        },
    ),
    ResultFile(
        name="operation_profile_cpu",
        title="Where the time goes on a CPU",
        words="Seconds of the operations of a train step and of generation on one CPU core, ours and those of "
        "transformers in PyTorch. Models and tokens are those of the table above. Rest: norms, softmax, "
        "activations, loss, optimizer, search, copies. Products alone: the speedup if all but our products of "
        "matrices took no time.",
        rows=("programs",),
        columns={
            "seconds": ("seconds",),
            "products with weights": ("weights",),
            "of attention": ("attention",),
            "rest": ("rest",),
            "PyTorch": ("pytorch", "seconds"),
            "its products with weights": ("pytorch", "weights"),
            "its attention": ("pytorch", "attention"),
            "its rest": ("pytorch", "rest"),
            "its Python": ("pytorch", "between"),
            "speedup": ("speedup",),
            "products alone": ("products_alone",),
        },
    ),
    ResultFile(
        name="plans",
        title="Train steps compiled for TPUs",
        words="What [`t5x-like plan`](guides/plan.md) says of a chip: compiled for TPUs that weren't there, never run. "
        "Seconds are a lower bound: work and communication overlap, at the data sheet's figures.",
        rows=(),
        columns=_PLAN_COLUMNS,
    ),
    ResultFile(
        name="family_plans",
        title="Sizes and families, compiled for TPUs",
        words="As above, with remat `full`: T5 1.1 with 8 rows of 512 + 114 tokens a chip, and other families.",
        rows=(),
        columns=_PLAN_COLUMNS,
    ),
    ResultFile(
        name="recurrent_speed_cpu",
        title="Recurrent layers compared with PyTorch",
        words="Layers of 256 to 1,024 units over 16 rows of 64 tokens, float32, no dropout. Each has one core of a "
        "machine that also did other work; both were measured in turn, three rounds. Below 1, PyTorch is faster.",
        rows=("cases",),
        columns={
            "forward, s": ("ours", "forward"),
            "PyTorch": ("pytorch", "forward"),
            "forward and backward, s": ("ours", "forward_and_backward"),
            "of PyTorch": ("pytorch", "forward_and_backward"),
            "speedup": ("speedup", "forward_and_backward"),
        },
    ),
    ResultFile(
        name="weak_scaling",
        title="Weak scaling from 8 to 512 chips",
        words="T5 1.1 XL with 16 rows of 512 + 114 tokens on each chip of a v5p, remat `full`, weights split over half "
        "of the chips and at most over 32, or over all: compiled, never run.",
        rows=(),
        columns={
            "mesh": ("plan", "mesh"),
            "peak, bytes": ("plan", "memory", "peak_bytes"),
            "bytes sent": ("plan", "program", "sent_bytes"),
            "seconds, all hidden": ("plan", "time", "overlapped", "seconds_per_step"),
            "seconds, none hidden": ("plan", "time", "not_overlapped", "seconds_per_step"),
        },
    ),
    ResultFile(
        name="gpu_scaling",
        title="Weak scaling from 8 to 512 GPUs",
        words="T5 1.1 XL with 16 rows of 512 + 114 tokens on each H100, 8 of a machine, attention by cuDNN, remat "
        "`minimal`: compiled, never run. Machines send 50 GB a second for each GPU.",
        rows=(),
        columns={
            "peak, bytes": ("plan", "memory", "peak_bytes"),
            "bytes sent": ("plan", "program", "sent_bytes"),
            "seconds, all hidden": ("plan", "time", "overlapped", "seconds_per_step"),
            "seconds, none hidden": ("plan", "time", "not_overlapped", "seconds_per_step"),
        },
    ),
    ResultFile(
        name="convert_memory_cpu",
        title="Memory of conversions",
        words="Peak memory while a T5 1.1 large (2.9 GiB of float32) is converted, weight by weight.",
        rows=("large",),
        columns={"peak GiB": ("peak_gib",), "seconds": ("seconds",)},
    ),
)
