# Every target does its own set-up in .venv; a fresh clone needs Python 3.11, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROJECTS := core/pyproject.toml $(wildcard plugins/*/pyproject.toml)

.PHONY: demo mini test test-plain-processor test-slow test-papers test-real test-alone test-jax test-lowest test-newest-python test-long test-all check docs frozen bench opponents gpu-test gpu-bench clean

demo: $(VENV)/.demo
	$(BIN)/sentbed run recipes/quickstart.toml

# Small studies, half an hour on two idle cores. All but `demonstrations` and `quick` need SENTBED_DATA.
mini: $(VENV)/.demo
	for recipe in recipes/mini/studies/*.toml; do $(BIN)/sentbed study $$recipe || exit 1; done

# Test files and what they start are compiled once, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

# A worker a core, each with one thread; the tests of a file share what they set up. Where a worker dies, the run ends:
# in place of another, xdist would wait without end.
WORKERS = OMP_NUM_THREADS=1 $(BIN)/pytest -q --durations 20 -n logical --maxprocesses 4 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder

# What one runs before every commit: some minutes on two cores.
test: $(VENV)/.dev
	$(WORKERS)

# The same tests as on a processor without bf16, VNNI, AMX and AVX-512, each library by its own switch: ours, PyTorch's,
# oneDNN's, MKL's, OpenVINO's and NumPy's, which warns of what it does not find. ONNX Runtime has none, and OpenBLAS
# (`OPENBLAS_CORETYPE`) is left as the machine needs it.
WIDE := import numpy; found = numpy.show_config('dicts')['SIMD Extensions'].get('found', []); print(*{*found} - {'X86_V3'})
test-plain-processor: export SENTBED_INSTRUCTIONS := avx2
test-plain-processor: export ATEN_CPU_CAPABILITY := avx2
test-plain-processor: export ONEDNN_MAX_CPU_ISA := AVX2
test-plain-processor: export MKL_ENABLE_INSTRUCTIONS := AVX2
test-plain-processor: export OV_CPU_MAX_ISA := AVX2
test-plain-processor: $(VENV)/.dev
	NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c "$(WIDE)")" $(WORKERS)

# The recipes of the papers with models as they lie on the hub; two of them are among the quick tests.
PAPERS := tests/test_paper_recipes_from_hub.py

# What `make test` leaves out, in five parts.
test-long: test-slow test-papers test-real test-alone test-jax

# More families, precisions and processes, killed studies, the documentation's code, and five times as many examples
# of each property: `make test-slow SLOW=plugins`.
SLOW ?= tests core/tests plugins
test-slow: $(VENV)/.dev
	$(WORKERS) --hypothesis-profile thorough -m '(slow or hypothesis) and not alone and not jax and not gpu' --ignore tests/real --ignore $(PAPERS) $(SLOW)

# All of them, two steps a stage.
test-papers: $(VENV)/.dev
	$(BIN)/pytest -q -m 'slow or not slow' $(PAPERS)

# Training on real data; needs SENTBED_DATA.
test-real: $(VENV)/.dev
	$(WORKERS) -m slow tests/real

# Each distribution, scaffold and example in a clean environment.
test-alone: $(VENV)/.dev
	$(WORKERS) -m alone

# JAX has processes of its own: its threads do not go with the forks of other tests.
test-jax: $(VENV)/.dev
	$(WORKERS) -m jax

# The lowest versions of dependencies that the distributions declare, in an environment of their own, some minutes.
# PyTorch is that of requirements/constraints.txt: not every index has wheels of an older one for the processor alone.
LOWEST := .venv-lowest
LOWEST_TESTS ?= core/tests plugins/common/tests plugins/data/tests plugins/poolers/tests plugins/losses/tests
test-lowest: $(LOWEST)/.installed
	OMP_NUM_THREADS=1 $(LOWEST)/bin/pytest -q -n logical --maxprocesses 4 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder $(LOWEST_TESTS)

# The quick tests with the newest Python that the distributions declare, in an environment of its own.
NEWEST ?= python3.13
test-newest-python:
	$(MAKE) test PYTHON=$(NEWEST) VENV=.venv-newest

test-all: test test-long

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=examples/sentbed-attention/src:examples/sentbed-cost/src $(BIN)/lint-imports
	$(BIN)/python tools/style_check.py
	$(BIN)/sentbed check recipes/quickstart.toml recipes/scratch.toml
	$(BIN)/towncrier build --draft > /dev/null

# The site, in `site/`; a warning is an error.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Numbers of today, at the public doors: `make frozen ROOMS=encoding`. Rooms that need real data skip without it.
frozen: $(VENV)/.dev
	$(BIN)/python tests/frozen $(ROOMS)

# Needs SENTBED_DATA.
bench: $(VENV)/.dev
	$(BIN)/python benchmarks/encode.py
	$(BIN)/python benchmarks/prefix.py
	$(BIN)/python benchmarks/early_exit.py
	$(BIN)/python benchmarks/gradcache.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/transfer.py
	$(BIN)/python benchmarks/throughput.py --train --json runs/throughput.json --plot runs/throughput.svg

# Needs SENTBED_DATA.
opponents: $(VENV)/.dev
	$(BIN)/python benchmarks/opponents.py --json runs/opponents.json

# Both say why they skip where there is no GPU.
gpu-test: $(VENV)/.dev
	$(BIN)/pytest -q -rs -m gpu tests/gpu

gpu-bench: $(VENV)/.dev
	$(BIN)/python benchmarks/gpu.py --json runs/gpu.json
	$(BIN)/python benchmarks/gpu_opponents.py --json runs/gpu-opponents.json

PIP := -m pip install --quiet --disable-pip-version-check

# The workspace is built with what builds it in the environment, and byte code is written by all cores: pip would
# install the builder once for each distribution, and compile file by file. Some packages hold templates that are no
# Python, which `compileall` counts as errors.
define install
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) 'hatchling>=1.24' 'editables>=0.5'
	$(BIN)/python $(PIP) --no-build-isolation --no-compile -r $(1)
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/' $(VENV)/lib > /dev/null || true
endef

$(VENV)/.demo: $(PROJECTS) requirements/demo.txt requirements/constraints.txt
	@echo "Installing into $(VENV), and nowhere else: sentbed with its plugins, PyTorch, transformers, the weights of"
	@echo "MiniLM and what they need, 80 packages of 1.5 GB; with the CUDA libraries of PyTorch for Linux, some GB more."
	$(call install,requirements/demo.txt)
	@touch $@

$(LOWEST)/.installed: $(PROJECTS) requirements/lowest.txt requirements/constraints.txt tools/lowest_versions.py
	@echo "Installing the lowest versions of what sentbed depends on into $(LOWEST), and nowhere else: 1.5 GB"
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check packaging
	$(LOWEST)/bin/python tools/lowest_versions.py --leave torch sentence-transformers > $(LOWEST)/constraints.txt
	grep -E '^(torch|sentence-transformers)==' requirements/constraints.txt >> $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(LOWEST)/constraints.txt -r requirements/lowest.txt
	@touch $@

# It has all that the demo needs, too.
$(VENV)/.dev: $(PROJECTS) requirements/demo.txt requirements/dev.txt requirements/constraints.txt
	@echo "Installing sentbed and what the tests, the checks and the documentation need into $(VENV), and nowhere else"
	$(call install,requirements/dev.txt)
	@touch $(VENV)/.demo $@

clean:
	rm -rf $(VENV) $(LOWEST) .venv-newest runs studies site .pytest_cache .mypy_cache .ruff_cache
