"""Opens any checkpoint and uses it: to write, or for vectors of texts; exports it for Hugging Face if asked to.

    python docs/examples/use_a_checkpoint.py --checkpoint runs/my_t5 --text "In the beginning God created the"
    python docs/examples/use_a_checkpoint.py --checkpoint bert-base-uncased --text "a cat" --text "a dog"

The checkpoint is a run of ours, a Hugging Face directory or name, a GGUF file, or a T5X checkpoint.
"""

import argparse

import t5x_like


def main(checkpoint: str, texts: list[str], export: str | None) -> None:
    pretrained = t5x_like.from_pretrained(checkpoint)
    print(pretrained)
    if pretrained.config.task in ("causal_lm", "sequence_to_sequence_lm"):
        for text, answer in zip(texts, pretrained.generate(texts, max_new_tokens=32), strict=True):
            print(f"{text} -> {answer}")
    else:
        vectors = pretrained.embed(texts)  # of length 1: inner products are cosines
        print("cosines with the first text:", (vectors @ vectors[0]).round(3).tolist())
    if export:
        t5x_like.export_hugging_face(pretrained, export)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--text", action="append", required=True)
    parser.add_argument("--export")
    flags = parser.parse_args()
    main(flags.checkpoint, flags.text, flags.export)
