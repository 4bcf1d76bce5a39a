"""Draw the pictures of the documentation, light and dark.

python -m docs.pictures.make              all of them
python -m docs.pictures.make attention    one
python -m docs.pictures.make --check      compare the files with what the scripts draw; exit code 1 where they differ
"""

import argparse
import importlib
import sys

from docs.pictures.style import FOLDER, PALETTES, svg_of

# sharding comes first: it asks for eight simulated devices before JAX starts.
NAMES = ("sharding", "packages", "batch_flow", "attention", "objectives", "learning_curve", "findings")


def main() -> int:
    """Return 0, or 1 if files differ from the scripts' pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", choices=[*NAMES, []], metavar="NAME", help=f"some of {', '.join(NAMES)}"
    )
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    different = []
    for name in [name for name in NAMES if not arguments.names or name in arguments.names]:
        draw = importlib.import_module(f"docs.pictures.{name}").draw
        for palette in PALETTES:
            file = FOLDER / f"{name}_{palette.name}.svg"
            svg = svg_of(draw, palette, name)
            if not arguments.check:
                file.write_text(svg, encoding="utf-8")
            elif not file.is_file() or file.read_text(encoding="utf-8") != svg:
                different.append(file.name)
    if different:
        print(f"these differ: {', '.join(different)}; run python -m docs.pictures.make", file=sys.stderr)
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
