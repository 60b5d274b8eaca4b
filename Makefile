# `make demo` and `make test` do the whole set-up. See CONTRIBUTING.md.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PYTHON ?= python3
export TF_CPP_MIN_LOG_LEVEL ?= 2

ROOT := $(CURDIR)
FRAGMENT := .sfctr.bazelrc
FRAGMENT_LATEST := .sfctr-latest.bazelrc
BAZEL := tools/bazel.sh $(FRAGMENT)
VENV_PYTHON := $(ROOT)/.venv/bin/python
FUZZ_SECONDS ?= 30
PYTEST_ARGS ?=

# Somewhere without a tf_sfctr folder, so that the installed wheel is what gets imported.
NEUTRAL := mkdir -p .bazel/run && cd .bazel/run &&
PYTEST := -m pytest --import-mode=importlib -c $(ROOT)/pyproject.toml --rootdir=$(ROOT) $(PYTEST_ARGS) $(ROOT)/tests

.PHONY: help
help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 14

.PHONY: packages
packages:
	@tools/packages.sh

.venv/requirements.stamp: requirements/tensorflow.txt requirements/dev.txt requirements/bench.no-deps.txt | packages
	@tools/venv.sh .venv $^
	@touch $@

.venv-latest/requirements.stamp: requirements/tensorflow-latest.txt requirements/dev.txt | packages
	@tools/venv.sh .venv-latest $^
	@touch $@

.venv-fbgemm/requirements.stamp: requirements/fbgemm.txt requirements/fbgemm.no-deps.txt | packages
	@tools/venv.sh .venv-fbgemm $^
	@touch $@

.venv-tfra/requirements.stamp: requirements/tfra.txt requirements/tfra.no-deps.txt | packages
	@tools/venv.sh .venv-tfra $^
	@touch $@

# Always asks Bazel, which does nothing when nothing changed.
.PHONY: install
install: .venv/requirements.stamp
	@tools/install.sh .venv $(FRAGMENT)

.PHONY: demo
demo: install  ## set up, build, and train DeepFM on made-up data: AUC, samples/s, table size
	$(NEUTRAL) $(VENV_PYTHON) -m tf_sfctr.demo

.PHONY: test
test: cc-test install  ## set up, build, and run the tests against the installed wheel
	$(NEUTRAL) $(VENV_PYTHON) $(PYTEST)

.PHONY: cc-test
cc-test: install  ## the C++ tests alone
	$(BAZEL) test //tests/core/...

.PHONY: test-latest
test-latest: .venv-latest/requirements.stamp  ## the Python tests against the newest TensorFlow
	@tools/install.sh .venv-latest $(FRAGMENT_LATEST)
	$(NEUTRAL) $(ROOT)/.venv-latest/bin/python $(PYTEST)

.PHONY: wheel
wheel: install  ## build the wheel into dist/
	@mkdir -p dist && install -m 644 "$$(tools/bazel.sh --wheel $(FRAGMENT))" dist/ && ls dist/*.whl

.PHONY: bench
bench: install  ## benchmarks with their baselines, one JSON object a line
	$(NEUTRAL) for what in embedding deepfm growth input; do $(VENV_PYTHON) -m tf_sfctr.bench $$what --json || exit 1; done

.PHONY: bench-peers
bench-peers: install .venv-fbgemm/requirements.stamp .venv-tfra/requirements.stamp  ## the same beside FBGEMM and TFRA
	$(NEUTRAL) SFCTR_PYTHON_FBGEMM=$(ROOT)/.venv-fbgemm/bin/python SFCTR_PYTHON_TFRA=$(ROOT)/.venv-tfra/bin/python \
	  $(VENV_PYTHON) -m tf_sfctr.bench peers --json

CC_FILES := $(wildcard ops/core/*.h ops/core/*.cc ops/core/*.cu ops/kernels/*.h ops/kernels/*.cc tests/core/*.h tests/core/*.cc)

.PHONY: lint
lint: .venv/requirements.stamp  ## ruff, mypy, clang-format
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	$(if $(CC_FILES),.venv/bin/clang-format --dry-run -Werror $(CC_FILES))

.PHONY: format
format: .venv/requirements.stamp  ## rewrite the sources as lint wants them
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .
	$(if $(CC_FILES),.venv/bin/clang-format -i $(CC_FILES))

.PHONY: sanitize
sanitize: install  ## the C++ tests under ASan + UBSan, then under TSan
	$(BAZEL) test --config=asan //tests/core/...
	$(BAZEL) test --config=tsan //tests/core/...

.PHONY: fuzz
fuzz: install  ## each libFuzzer target for FUZZ_SECONDS (30)
	@tools/packages.sh clang
	@tools/fuzz.sh $(FRAGMENT) $(FUZZ_SECONDS)

.PHONY: clean
clean:  ## remove everything that was built, the virtual environments too
	-@for fragment in $(wildcard $(FRAGMENT) $(FRAGMENT_LATEST)); do tools/bazel.sh $$fragment shutdown; done
	chmod -R u+w .bazel 2>/dev/null || true
	rm -rf .bazel bazel-out .sfctr.bazelrc .sfctr-latest.bazelrc .venv .venv-latest .venv-fbgemm .venv-tfra dist .mypy_cache .pytest_cache .ruff_cache
