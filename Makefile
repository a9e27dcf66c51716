# Each target sets up what it needs in .venv; a second run starts at once.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-long lint frontend check bench bench-flower bench-hivemind fuzz chaos docs results-page lock release clean

demo: .venv/.installed
	$(BIN)/paceline demo

# Tests start a hundred processes: none should compile the package again, whatever the shell is set to.
test test-long: export PYTHONDONTWRITEBYTECODE =

test: .venv/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadfile

test-long: .venv/.installed-dev
	$(BIN)/python -m pytest -n auto -m long

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@if command -v npm >/dev/null || [ -n "$$PACELINE_REQUIRE_ALL" ]; then $(MAKE) --no-print-directory frontend; \
	else echo "The scripts of the page are not checked: npm is missing (Debian: apt install nodejs npm)"; fi

# Checks the scripts of src/paceline/report/web; the package needs neither Node nor a build.
frontend: frontend/node_modules/.installed
	cd frontend && npm run --silent lint && npm run --silent types && npm test --silent

check: lint test docs

bench: .venv/.installed-bench
	$(BIN)/python benchmarks/codecs.py
	$(BIN)/python benchmarks/http_candidates.py --markdown benchmarks/results/http_candidates.md
	$(BIN)/python benchmarks/rpc.py --markdown benchmarks/results/rpc.md
	$(BIN)/python benchmarks/allocation.py --markdown benchmarks/results/allocation.md
	$(BIN)/python benchmarks/med.py --markdown benchmarks/results/med.md
	$(BIN)/python benchmarks/policies.py --markdown benchmarks/results/policies.md
	$(BIN)/python benchmarks/poisoning.py --markdown benchmarks/results/poisoning.md
	$(BIN)/python benchmarks/compression.py --markdown benchmarks/results/compression.md
	$(BIN)/python benchmarks/subset.py --markdown benchmarks/results/subset.md
	$(BIN)/python benchmarks/points.py --markdown benchmarks/results/points.md
	$(BIN)/python benchmarks/larger_than_memory.py --markdown benchmarks/results/larger_than_memory.md
	$(BIN)/python benchmarks/stressors.py --markdown benchmarks/results/stressors.md
	$(BIN)/python benchmarks/many_learners.py --markdown benchmarks/results/many_learners.md
	$(BIN)/python benchmarks/viewers.py --markdown benchmarks/results/viewers.md
	$(BIN)/python benchmarks/audits.py --markdown benchmarks/results/audits.md
	$(BIN)/python benchmarks/gossip.py --systems virtual,paceline,sockets,mixing-sockets \
		--markdown benchmarks/results/gossip.md
	$(BIN)/python benchmarks/split.py --markdown benchmarks/results/split.md

bench-flower: .venv/.installed-bench .venv-flower/.installed
	$(BIN)/python benchmarks/rounds.py --markdown benchmarks/results/rounds.md
	$(BIN)/python benchmarks/simulate.py --markdown benchmarks/results/simulate.md

bench-hivemind: .venv/.installed-bench .venv-hivemind/.installed
	$(BIN)/python benchmarks/gossip.py --markdown benchmarks/results/gossip.md

fuzz: .venv/.installed-dev
	$(BIN)/python -m tests.axon.fuzz --requests 100000
	$(BIN)/python -m tests.axon.flood --requests 1000000

chaos: .venv/.installed-dev
	$(BIN)/python -m tests.chaos --seeds 10000

docs: .venv/.installed-docs
	$(BIN)/mkdocs build --quiet --strict

results-page: .venv/.installed-experiments
	PYTHONPATH=experiments $(BIN)/python -m reproduction.page docs

lock: .venv/.installed-release
	$(BIN)/python release/lock.py

release: .venv/.installed-release
	$(BIN)/python release/build.py

clean:
	rm -rf .venv .venv-flower .venv-hivemind frontend/node_modules site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Paceline needs Python 3.10 or newer; set PYTHON=python3.x") if sys.version_info < (3, 10) else None'
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python pyproject.toml constraints.txt release/paceline.txt
	@echo "Setting up .venv (once; PyTorch takes a minute)"
	$(PIP) --require-hashes -r release/paceline.txt
	$(PIP) -e .
	@touch $@

.venv/.installed-%: .venv/.installed
	$(PIP) -e '.[$*]'
	@touch $@

frontend/node_modules/.installed: frontend/package-lock.json
	cd frontend && npm ci --silent --no-audit --no-fund
	@touch $@

# Flower's pins are not ours. PyTorch is ours, at the pinned release: a plain one pulls gigabytes of GPU packages.
.venv-flower/.installed: benchmarks/peers/flower/requirements.txt constraints.txt .venv/bin/python
	@echo "Setting up .venv-flower (once; Ray and PyTorch take two minutes)"
	$(PYTHON) -m venv .venv-flower
	.venv-flower/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/flower/requirements.txt
	.venv-flower/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	@touch $@

.venv-hivemind/.installed: benchmarks/peers/hivemind/requirements.txt constraints.txt .venv/bin/python
	@echo "Setting up .venv-hivemind (once; PyTorch takes a minute)"
	$(PYTHON) -m venv .venv-hivemind
	.venv-hivemind/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-r benchmarks/peers/hivemind/requirements.txt
	@touch $@
