"""Files of ``benchmarks/results`` about GPUs and TPUs: what was run there, and what was only compiled."""

from docs.site.result_file import ResultFile

_PLAN_COLUMNS: dict[str, tuple[str, ...]] = {
    "devices": ("plan", "topology"),
    "mesh": ("plan", "mesh"),
    "remat": ("plan", "remat"),
    "rows": ("plan", "batch_size"),
    "peak, bytes": ("plan", "memory", "peak_bytes"),
    "seconds, at least": ("plan", "time", "overlapped", "seconds_per_step"),
}

ACCELERATOR_FILES = (
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
        name="slice_scaling",
        title="Weak scaling over slices of 512 chips",
        words="T5 1.1 XL with 16 rows of 512 + 114 tokens on each chip of a v5p, remat `full`, 1 to 8 slices joined by "
        "the data center's network: compiled, never run.",
        rows=(),
        columns={
            "topology": ("plan", "topology"),
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
)
