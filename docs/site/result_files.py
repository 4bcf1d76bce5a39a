"""Files in ``benchmarks/results``, as the page of results shows them."""

from docs.site.accelerator_files import ACCELERATOR_FILES
from docs.site.result_file import ResultFile

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
        name="probes_cpu",
        title="Probes with baselines",
        words="Parts of speech in the layers of MiniLM, read from 300 sentences by [probes](guides/analysis.md) "
        "with three seeds: accuracy, that of the control task and of fresh weights, and compression of the online "
        "code.",
        rows=("mean",),
        columns={
            "accuracy, %": ("accuracy",),
            "control task, %": ("control",),
            "fresh weights, %": ("random_model",),
            "compression": ("compression",),
        },
    ),
    ResultFile(
        name="real_step_cpu",
        title="The real command",
        words="`t5x-like train` of tiny recipes on the shipped text, on two CPU cores that others use too, next to the "
        "step of the same recipe on one batch of full rows. See [performance](performance.md#the-real-command).",
        rows=("recipes",),
        columns={
            "tokens a second, with pauses": ("real", "tokens_per_second_with_pauses"),
            "padding": ("real", "padding"),
            "processor seconds a step": ("real", "processor_seconds_per_step"),
            "of a synthetic step": ("synthetic", "processor_seconds_per_step"),
            "ratio": ("ratio_of_processor_seconds",),
            "steps a second": ("real", "steps_per_second_of_lines", "median"),
            "those of synthetic steps": ("synthetic_steps_per_second",),
            "ratio of these": ("ratio_of_steps_per_second",),
            "waiting for data": ("real", "data_wait_fraction"),
            "compiled in, s": ("real", "compile_seconds"),
            "first evaluation, s": ("real", "first_evaluation_seconds"),
            "other evaluations, s": ("real", "evaluation_seconds"),
            "first save, s": ("real", "first_save_seconds"),
            "other saves, s": ("real", "save_seconds"),
            "GiB": ("real", "process_peak_gib"),
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
        name="convert_memory_cpu",
        title="Memory of conversions",
        words="Peak memory while a T5 1.1 large (2.9 GiB of float32) is converted, weight by weight.",
        rows=("large",),
        columns={"peak GiB": ("peak_gib",), "seconds": ("seconds",)},
    ),
    ResultFile(
        name="predict_memory_cpu",
        title="Memory of predictions for tables",
        words="Peak memory of `t5x-like predict` with a tiny model, on tables of more and more rows.",
        rows=("runs",),
        columns={"peak GiB": ("peak_gib",), "seconds": ("seconds",)},
    ),
    ResultFile(
        name="clean_environments",
        title="Packages in clean environments",
        words="The wheel and the source distribution, installed by pip into new environments of three Pythons, with "
        "the commands that ran there. The machine was busy.",
        rows=("environments",),
        columns={
            "JAX": ("jax",),
            "extras": ("extras",),
            "MB": ("megabytes",),
            "seconds of pip": ("install_seconds",),
        },
    ),
    ResultFile(
        name="installation_cpu",
        title="Weight of an installation",
        words="`pip install t5x-like` before seqio and TensorFlow became the extra `seqio`, now, and with it. pip had "
        "downloaded the wheels before. Seconds of commands are medians; the installations took turns.",
        rows=("installations",),
        columns={
            "MB": ("megabytes",),
            "packages": ("packages",),
            "seconds of pip": ("install_seconds",),
            "of a core": ("install_cpu_seconds",),
            "`import t5x_like`, s": ("seconds", "import t5x_like"),
            "`--help`, s": ("seconds", "t5x-like --help"),
            "`tasks list`, s": ("seconds", "t5x-like tasks list"),
        },
    ),
    *ACCELERATOR_FILES,
)
