"""Models that are called several times: with memory, in an order of prediction, or under several masks."""

from typing import Any

import numpy as np

from benchmarks.references.reference import check_close


def has_segments(folder: Any) -> bool:
    """Return whether the recorded inputs are those of several calls."""
    return any(name.startswith(("in_mask3d_", "in_input_ids_")) for name in folder.io)


def check_segments(folder: Any, *, atol: float) -> None:
    """Compare the outputs of all calls."""
    if "in_perm_mask" in folder.io:
        check_permutations(folder, atol=atol)
    elif any(name.startswith("in_mask3d_") for name in folder.io):
        check_masks(folder, atol=atol)
    else:
        check_memory(folder, atol=atol)


def names_of(io: dict[str, np.ndarray], prefix: str) -> list[str]:
    """Return the rest of the names that begin with ``prefix``, sorted."""
    return sorted(name.removeprefix(prefix) for name in io if name.startswith(prefix))


def check_masks(folder: Any, *, atol: float) -> None:
    """Compare UniLM's outputs under each of its masks, at real tokens."""
    io = folder.io
    real = np.arange(io["in_input_ids"].shape[1])[None] < io["in_total_len"][:, None]
    for mode in names_of(io, "in_mask3d_"):
        answers = folder.pretrained(
            input_ids=io["in_input_ids"],
            token_type_ids=io["in_token_type_ids"],
            attention_mask=io[f"in_mask3d_{mode}"],
        )
        for output in ("logits", "last_hidden_state"):
            check_close(
                answers[output][real], io[f"out_{mode}_{output}"][real], f"{mode} {output}", atol=atol
            )


def check_memory(folder: Any, *, atol: float) -> None:
    """Compare Transformer-XL's outputs segment after segment, each with the memory of those before."""
    io, memory = folder.io, None
    for segment in names_of(io, "in_input_ids_"):
        ids = io[f"in_input_ids_{segment}"]
        answers = folder.pretrained(input_ids=ids, labels=ids, mems=memory, output_hidden_states=True)
        memory = answers["mems"]
        recorded = {
            "logprobs": answers["logits"],
            "token_nll": answers["losses"],
            "loss": answers["loss"],
            "mems": np.stack(memory),
            "hidden_states": np.stack(answers["hidden_states"]),
        }
        for name, got in recorded.items():
            check_close(got, io[f"out_{segment}_{name}"], f"{segment} {name}", atol=atol)


def segment_of(io: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Return the arguments of one of XLNet's segments."""
    return {"input_ids": io[f"in_input_ids_{name}"], "token_type_ids": io[f"in_token_type_ids_{name}"]}


def targets_of(io: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arguments of XLNet's targets in an order of prediction."""
    return {"perm_mask": io["in_perm_mask"], "target_mapping": io["in_target_mapping"]}


def check_permutations(folder: Any, *, atol: float) -> None:
    """Compare XLNet's outputs with and without memory, padding, token types and targets."""
    io = folder.io

    def call(**arguments: Any) -> Any:
        return folder.pretrained(**arguments, output_hidden_states=True)

    def compare(got: Any, name: str) -> None:
        if f"out_{name}" in io:
            check_close(got, io[f"out_{name}"], name, atol=atol)

    first = call(**segment_of(io, "a"))
    compare(first["logits"], "plain_logits")
    compare(first["logits"], "seg1_logits")
    compare(np.stack(first["hidden_states"]), "plain_hidden_states")
    compare(np.stack(first["mems"]), "seg1_mems")
    second = call(**segment_of(io, "b"), mems=first["mems"])
    compare(second["logits"], "seg2_logits")
    compare(np.stack(second["mems"]), "seg2_mems")
    padded = call(**segment_of(io, "pad"), attention_mask=io["in_attention_mask_pad"])
    real = io["in_attention_mask_pad"] == 1
    check_close(padded["logits"][real], io["out_pad_logits"][real], "pad_logits", atol=atol)
    compare(call(input_ids=io["in_input_ids_b"])["logits"], "notype_logits")
    predicted = call(**segment_of(io, "a"), **targets_of(io), labels=io["in_labels"])
    compare(predicted["logits"], "perm_logits")
    compare(predicted["loss"], "perm_loss")
    with_memory = call(**segment_of(io, "a"), **targets_of(io), mems=first["mems"])
    compare(with_memory["logits"], "perm_mems_logits")
