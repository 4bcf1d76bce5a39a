import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # tests here import history_table by its name
