"""Tokenizer files and special ids of an export, with which transformers reads and writes as the model was trained."""

import json
import warnings

from t5x_like.model.model_traits import traits_of
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.run_weights import trained_with_framing, was_trained_here
from t5x_like.pretrained.tokenizer_files import tokenizer_contents
from t5x_like.text.heads.input_format import input_format_of
from t5x_like.text.vocabularies.definitions import template_of
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.text.vocabularies.tokenizer_definition import definition_of
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

_NO_LIMIT = 2**30  # tokens
_ROLES = ("pad", "eos", "bos", "cls", "sep", "mask")


def exported_tokenizer(checkpoint: Checkpoint) -> dict[str, bytes]:
    """Return the tokenizer's files by name.

    Files that name transformers' class stay as they are. Others get a ``tokenizer.json`` with the special ids that the
    model was trained with, and a ``tokenizer_config.json`` that names a class. Where the library ``tokenizers`` has no
    such tokenizer, both are left out, with a warning.

    Args:
      checkpoint: Model to export.
    """
    files = tokenizer_contents(checkpoint.directory)
    configuration = json.loads(files.get("tokenizer_config.json", b"{}"))
    is_complete = "tokenizer_class" in configuration or (
        "tokenizer.json" in files and json.loads(files["tokenizer.json"]).get("post_processor")
    )
    tokenizer = checkpoint.found_tokenizer
    if tokenizer is None or not was_trained_here(checkpoint.directory):
        return files
    if is_complete and not _lacks_end(checkpoint, tokenizer):
        return files
    try:
        definition = definition_of(tokenizer)
    except ValueError as error:
        warnings.warn(f"transformers can't read the tokenizer of this export: {error}", stacklevel=2)
        return files
    template = _template_of_pairs if _reads_pairs(checkpoint) else _template_of_text
    definition["post_processor"] = template(checkpoint, tokenizer)
    ids = {**_trained_ids(checkpoint, tokenizer), "unk": tokenizer.special.unk}
    configuration |= {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": _input_names(checkpoint),
        **{
            f"{name}_token": tokenizer.piece(token_id)
            for name, token_id in ids.items()
            if token_id is not None
        },
    }
    if checkpoint.max_positions is not None:
        configuration["model_max_length"] = checkpoint.max_positions
    contents = {"tokenizer.json": definition, "tokenizer_config.json": configuration}
    return files | {
        name: json.dumps(content, ensure_ascii=False, indent=2).encode() for name, content in contents.items()
    }


def exported_ids(checkpoint: Checkpoint) -> dict[str, int | None] | None:
    """Return the special ids of a run's tokenizer by role; ``None`` for what was not trained here, or has no tokenizer.

    ``decoder_start`` is among them for an encoder-decoder. Ids that the tokenizer lacks are ``None``.

    Args:
      checkpoint: Model to export.
    """
    tokenizer = checkpoint.found_tokenizer
    if tokenizer is None or not was_trained_here(checkpoint.directory):
        return None
    ids = _trained_ids(checkpoint, tokenizer)
    if checkpoint.family == "encoder_decoder":
        ids["decoder_start"] = checkpoint.special_ids.decoder_start
    return ids


def _trained_ids(checkpoint: Checkpoint, tokenizer: Tokenizer) -> dict[str, int | None]:
    """Return the special ids that a run was trained with, by role."""
    if not _reads_pairs(checkpoint):
        return {name: getattr(checkpoint.special_ids, name) for name in _ROLES}
    known = ids_of(tokenizer)
    own = {name: getattr(tokenizer.special, name) for name in _ROLES}
    return own | {name: getattr(known, name) for name in ("cls", "sep", "mask")}


def _reads_pairs(checkpoint: Checkpoint) -> bool:
    """Return whether texts are joined as for heads, such as [CLS] A [SEP] B [SEP]."""
    is_of_rows = checkpoint.answers_by_head or checkpoint.sentence_embedding is not None
    return is_of_rows or checkpoint.family in ("encoder", "two_stream")


def _lacks_end(checkpoint: Checkpoint, tokenizer: Tokenizer) -> bool:
    """Return whether a decoder's vectors were trained on texts with an end, which the tokenizer's files don't add."""
    is_embedder = checkpoint.sentence_embedding is not None and checkpoint.family == "decoder"
    return is_embedder and not tokenizer.adds_eos


def _template_of_pairs(checkpoint: Checkpoint, tokenizer: Tokenizer) -> dict[str, object] | None:
    joined = input_format_of(tokenizer, _NO_LIMIT, trained_with_framing(checkpoint.directory))
    between = [(token_id, 0) for token_id in joined.between]
    return template_of(tokenizer.piece, start=joined.start, between=between, end=joined.end)


def _template_of_text(checkpoint: Checkpoint, tokenizer: Tokenizer) -> dict[str, object] | None:
    start, end = checkpoint.prompt_encoder.prefix_ids, checkpoint.prompt_encoder.suffix_ids
    return template_of(tokenizer.piece, start=start, between=[(token_id, 0) for token_id in end], end=end)


def _input_names(checkpoint: Checkpoint) -> list[str]:
    embeddings = traits_of(checkpoint.config).embeddings
    has_types = embeddings is not None and embeddings.num_token_types > 1
    return ["input_ids", *(["token_type_ids"] if has_types else []), "attention_mask"]
