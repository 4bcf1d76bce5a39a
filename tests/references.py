"""Where tests find the repository, and the larger reference sets that may lie beside it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
GOLDEN = SHARED / "golden"
FIXTURES = ROOT / "tests/fixtures"
