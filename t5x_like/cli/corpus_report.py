"""Write one self-contained HTML page about a corpus: what was kept and dropped by each step, why, and samples.

t5x-like corpus report corpus/c4_en [--output report.html]
"""

import argparse
import os


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``t5x-like corpus report``."""
    parser.add_argument("corpus", metavar="DIR", help="folder of a finished corpus")
    parser.add_argument("--output", metavar="FILE", help="the page to write (DIR/report.html)")


def run(arguments: argparse.Namespace) -> int:
    """Writes the page and says where."""
    from t5x_like.corpora.building.build import REPORT
    from t5x_like.reports.corpus_page import write_corpus_page

    output = arguments.output or os.path.join(arguments.corpus, REPORT)
    write_corpus_page(arguments.corpus, output)
    print(f"written to {output}")
    return 0
