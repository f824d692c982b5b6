# Everything a developer runs. `make` alone lists the targets.

PYTHON ?= python3
UV ?= uv
MINUTES ?= 10

VENV := .venv
DEMO_VENV := .venv-demo
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(DEMO_VENV)/.installed
# Tests wait more than they compute, so more of them run side by side than a small machine has cores. Those of load
# look at the clock: they come afterwards, fewer at once. On any machine alike, so that they are as steady everywhere.
SIDE_BY_SIDE := --dist loadfile --no-loadscope-reorder --numprocesses
DASHBOARDS := collector-config/backends/grafana/source/generate.py
# The releases whose behaviour the tests know; they move by hand.
OPENSANDBOX_SERVER := opensandbox-server==1.1.1
STOCK_GYM := nemo-gym==0.7.0 nemo-lens==0.1.0 opensandbox==1.1.1
# The Python that nemo-gym asks for; the tests run it on older ones too.
STOCK_GYM_PYTHON := 3.13.14
# What a Gym with its own telemetry also brings; its version is that of the other exporter.
GRPC_EXPORTER := opentelemetry-exporter-otlp-proto-grpc grpcio
PIN := $(UV) pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --upgrade
LOCK := $(PIN) --python-version 3.11

# $(call install,FOLDER,CONSTRAINTS): a virtual environment of the pinned packages with this checkout in it.
define install
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo '$(PYTHON) must be Python 3.11 or newer with its venv module (on Debian: apt install python3-venv).' >&2; \
		echo 'Another one is chosen so: make PYTHON=python3.13 $(MAKECMDGOALS)' >&2; \
		exit 1; }
	@echo 'Installing the packages of $(2) into $(1)'
	@$(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(2)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
endef

.PHONY: help demo test unit e2e-full bench bench-quick bench-long soak bench-parts bench-report fuzz lint format venv schemas screenshots dashboards collector lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_STAMP) ## run the whole pipeline on simulated sandboxes; needs Python alone
	@$(DEMO_VENV)/bin/sandgauge demo

test: venv ## run all tests; those of a real part that is not found are skipped, and say so
	@$(BIN)/pytest $(SIDE_BY_SIDE) 4 -m 'not load'
	@$(BIN)/pytest $(SIDE_BY_SIDE) 2 -m load

unit: venv ## run the tests that need no real part and no load, which are most of them
	@$(BIN)/pytest $(SIDE_BY_SIDE) 4 -m 'not integration and not load'

e2e-full: venv ## run the tests of the compose stack with a real Jaeger and Prometheus; builds them with Go, half an hour once
	@SANDGAUGE_REQUIRE_REAL_PARTS=1 SANDGAUGE_REAL_BACKENDS=1 $(BIN)/pytest -s tests/integration/test_compose_*.py

lint: venv ## check style, types, the direction of imports and the generated files
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@MYPYPATH=emitter:tests $(BIN)/mypy --follow-imports=silent tests/bench
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python schemas/generate.py --check
	@$(BIN)/python poller/generate.py --check
	@$(BIN)/python $(DASHBOARDS) --check

bench: venv ## measure the poller beside a bare loop and the obvious alternative; keeps results and quotes them in docs; an hour
	@PYTHONPATH=tests $(BIN)/python -m bench --save

bench-quick: venv ## the same in half a minute with 200 sandboxes, and keep nothing
	@PYTHONPATH=tests $(BIN)/python -m bench --quick

bench-long: venv ## replace a fifth of 5,000 sandboxes each minute, for MINUTES (10), and see that nothing grows; keeps results as well
	@PYTHONPATH=tests $(BIN)/python -m bench.long --minutes $(MINUTES) --save

soak: venv ## let 10,000 sandboxes come and go in half an hour, 500 at a time, and see that nothing grows and no series stays
	@PYTHONPATH=tests $(BIN)/python -m bench.long --minutes 30 --sandboxes 500 --churn 0.65

bench-parts: venv ## measure what the emitter costs Gym, and what usage of pods and containers costs
	@PYTHONPATH=tests $(BIN)/python tests/bench/gym_starts.py
	@PYTHONPATH=tests $(BIN)/python tests/bench/usage_of_pods.py
	@PYTHONPATH=tests $(BIN)/python tests/bench/usage_of_containers.py

bench-report: venv ## measure `sandgauge report` on files of a million spans; a quarter of an hour
	@PYTHONPATH=tests $(BIN)/python tests/bench/report_spans.py

fuzz: venv ## send a poller a million damaged bodies and a million forged spans; takes a quarter of an hour on two free cores
	@PYTHONPATH=tests $(BIN)/python tests/bench/fuzz_ingest.py

format: venv ## format the code and make the fixes that are safe
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

venv: $(STAMP) ## make .venv with everything for development

schemas: venv ## generate names and reference page from schemas/registry, and schema and example of the configuration
	@$(BIN)/python schemas/generate.py
	@$(BIN)/python poller/generate.py

screenshots: venv ## take the pictures of page and top that docs/images shows; needs Chromium
	@PYTHONPATH=tests $(BIN)/python -m support.page_pictures docs/images

dashboards: venv ## generate Grafana's dashboards from collector-config/backends/grafana/source
	@$(BIN)/python $(DASHBOARDS)

collector: ## build the Collector of collector-config/builder.yaml with Go, once; prints its path
	@collector-config/build.sh

lock: ## choose the newest versions again and pin them by hash in constraints/ (needs uv)
	@$(LOCK) pyproject.toml --all-extras --group dev --output-file constraints/dev.txt >/dev/null
	@$(LOCK) pyproject.toml --extra kafka --group build --constraints constraints/dev.txt --output-file constraints/poller.txt >/dev/null
	@echo '$(OPENSANDBOX_SERVER)' | $(LOCK) - --output-file constraints/opensandbox-server.txt >/dev/null
	@printf '%s\n' $(STOCK_GYM) | $(PIN) --python-version $(STOCK_GYM_PYTHON) --no-deps - --output-file constraints/stock-gym.txt >/dev/null
	@$(LOCK) pyproject.toml --extra gym --group build --group stock-gym --constraints constraints/dev.txt --output-file constraints/stock-gym-runtime.txt >/dev/null
	@printf '%s\n' $(GRPC_EXPORTER) | $(LOCK) --no-deps - --constraints constraints/stock-gym-runtime.txt --output-file constraints/grpc-exporter.txt >/dev/null

clean: ## remove what the targets made, except the built Collector
	@rm -rf $(VENV) $(DEMO_VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find emitter poller schemas collector-config tests -name __pycache__ -prune -exec rm -rf {} +

$(STAMP): constraints/dev.txt pyproject.toml
	$(call install,$(VENV),constraints/dev.txt)

$(DEMO_STAMP): constraints/poller.txt pyproject.toml
	$(call install,$(DEMO_VENV),constraints/poller.txt)
