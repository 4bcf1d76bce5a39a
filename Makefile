# make quickstart   the whole story on shipped data: pretrain, fine-tune, evaluate, predict, one report
# make test         everything CI checks
# `make` alone lists all targets. All of them set up .venv first; that is done once and then costs nothing.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Commands and tests start many processes. Where this is set, each would compile all libraries' Python files again.
unexport PYTHONDONTWRITEBYTECODE

# XLA allocates each step's arrays anew. Huge pages save page faults.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1

UV := 0.13.8
BIN := .venv/bin
STAMP := .venv/.installed
RUNS := runs/quickstart
SHELL_SCRIPTS = .ci/run .ci/lean $(shell find launch -name '*.sh' -o -name 'run' -type f | sort)

.PHONY: help setup test test-lean quickstart findings lint format types imports spelling shell docs notebooks pytest clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 14

setup: $(STAMP) ## create .venv with exactly the versions of requirements.lock

# An interpreter counts if its version is supported and it can make a virtual environment. On Python 3.13 one of seqio's
# requirements (editdistance) has no wheel and has to be compiled, so there a C++ compiler is needed too.
define FIND_PYTHON
for candidate in $(PYTHON) python3 python3.12 python3.11 python3.13 python; do \
  version=$$("$$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
  case "$$version" in \
    3.11|3.12) ;; \
    3.13) if ! command -v c++ >/dev/null; then \
      why="Python 3.13 needs a C++ compiler here (one requirement has no wheel for it): apt install g++ python3-dev, or use Python 3.12"; \
      continue; fi ;; \
    *) continue ;; \
  esac; \
  if "$$candidate" -c 'import venv, ensurepip' 2>/dev/null; then found=$$candidate; break; fi; \
  why="Python $$version can't make virtual environments; on Debian or Ubuntu: apt install python$$version-venv"; \
done
endef

$(STAMP): requirements.lock pyproject.toml
	@if ! $(BIN)/python -c '' 2>/dev/null; then \
	  found=; why="t5x_like needs Python 3.11, 3.12 or 3.13 as python3, python3.12 …, or make setup PYTHON=/path/to/python3.12"; \
	  $(FIND_PYTHON); \
	  if [ -z "$$found" ]; then echo "$$why" >&2; exit 1; fi; \
	  echo "setting up .venv with $$("$$found" --version)"; \
	  rm -rf .venv; "$$found" -m venv .venv; \
	fi
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV)
	@# uv is some times faster; pip is the way out where only pip knows the mirror or the certificate.
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements.lock \
	  || { echo "uv could not install the requirements; trying pip"; \
	       $(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock; }
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e . \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@
	@echo "ready: $(BIN)/t5x-like --help"

# Types and the site are checked by one process each, while the tests run.
test: lint imports spelling shell ## lint, type-check, check import contracts, run the tests
	@$(MAKE) --jobs=2 pytest types docs

# Without the extra seqio, as `pip install t5x-like` installs it; tests of seqio are left out there.
LEAN := build/lean

test-lean: $(STAMP) ## run the tests in an environment without seqio and TensorFlow
	@mkdir -p build
	$(BIN)/python -m venv $(LEAN)
	sed '/--hash=/d; s/ \\$$//' requirements.lock > build/lean_constraints.txt
	$(BIN)/uv pip install --quiet --python $(LEAN)/bin/python --constraint build/lean_constraints.txt -e '.[test]'
	$(LEAN)/bin/python -c 'from importlib.util import find_spec; assert not (find_spec("seqio") or find_spec("tensorflow"))'
	$(LEAN)/bin/python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder

QUICKSTART := gin/recipes/quickstart

# Finished parts are not done again: a run directory that has reached its last step ends at once.
quickstart: $(STAMP) ## pretrain, fine-tune, evaluate, predict on the shipped data, and write runs/quickstart/report.html
	@echo "1/5 pretraining: fill gaps in the King James Bible"
	$(BIN)/t5x-like train --gin_file=$(QUICKSTART)/pretrain.gin --model_dir $(RUNS)/pretrain
	@echo "2/5 fine-tuning: what does a definition define; how is a word pronounced"
	$(BIN)/t5x-like train --gin_file=$(QUICKSTART)/finetune.gin --set INITIAL_CHECKPOINT=$(RUNS)/pretrain \
	  --model_dir $(RUNS)/finetune
	@echo "3/5 evaluation on rows it never saw"
	$(BIN)/t5x-like evaluate --gin_file=$(QUICKSTART)/evaluate.gin --set CHECKPOINT=$(RUNS)/finetune \
	  --set OUTPUT_DIR=$(RUNS)/evaluation
	@echo "4/5 prediction"
	$(BIN)/t5x-like predict --gin_file=$(QUICKSTART)/predict.gin --set CHECKPOINT=$(RUNS)/finetune \
	  --set TASK=cmudict --input "t r a n s f o r m e r" --input "k i n g" --input "g o a t"
	@echo "5/5 report"
	$(BIN)/t5x-like report --gin_file=$(QUICKSTART)/report.gin --set PRETRAIN_DIR=$(RUNS)/pretrain \
	  --set FINETUNE_DIR=$(RUNS)/finetune --set EVALUATION_DIR=$(RUNS)/evaluation \
	  --set OUTPUT=$(RUNS)/report.html
	@echo "Open $(RUNS)/report.html; it ends with what to try next."

# The shipped part of the corpus, and results of its own: those of the repository stay.
findings: $(STAMP) ## repeat one small finding of a paper, and print its verdict
	$(BIN)/python -m benchmarks.findings --names t5_repeats --only 'no repeats' '4,096 repeats' --minutes 10 \
	  --text data/open_docs --runs $(RUNS)/findings --results $(RUNS)/findings

lint: $(STAMP) ## formatting and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(STAMP) ## put the code into its form
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

types: $(STAMP)
	$(BIN)/pyright

imports: $(STAMP)
	$(BIN)/lint-imports

spelling: $(STAMP)
	$(BIN)/codespell

shell: $(STAMP)
	$(BIN)/shellcheck $(SHELL_SCRIPTS)

# Needs no network, also when the site is read.
docs: $(STAMP) ## build the documentation into build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

notebooks: $(STAMP) ## run the tutorials' scripts and write the notebooks with their outputs
	$(BIN)/python -m docs.tutorials.make

# Two processes; the tests of a file share what they prepare, so a file is never split.
pytest: $(STAMP)
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder

clean: ## remove what tools left behind; .venv and runs stay
	rm -rf build dist .jax_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
