"""Findings of papers, looked for by many small runs: a plan that is written first, a queue, verdicts, and a page."""
