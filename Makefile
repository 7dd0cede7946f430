# The verbs of this project. Each makes what it needs: `.venv` with the newest Python >= 3.12 found, and in it
# the dependencies of pyproject.toml at the versions of constraints.txt, installed again when either file changes.

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/ready
export PORT CLUSTER

# Without clock, database or network, so nothing in them may be untested.
PURE := pools/scaling.py,pools/errors.py,sandboxes/lifecycle.py,sandboxes/times.py,sandboxes/diagnosis.py
PURE := $(PURE),pools/documents.py,pools/isolation.py,pools/pod_template.py
PURE := $(PURE),sandboxes/cluster/snapshot.py,sandboxes/cluster/manifest.py,sandboxes/cluster/errors.py

.DEFAULT_GOAL := help
.PHONY: help run test check bench format clean kubernetes test-kubernetes bench-kubernetes

help:  ## Show the verbs
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

run: $(READY)  ## Start everything on this machine: make run [PORT=8000] [CLUSTER=kubernetes]
	@exec $(PY) manage.py up $(ARGS)

kubernetes: $(READY)  ## A real Kubernetes of one node on this machine (needs root and Go): make kubernetes
	@exec $(PY) manage.py kubernetes up $(ARGS)

test: $(READY)  ## Run all tests with the coverage gates: make test; some of them without: make test ARGS="-k name"
ifdef ARGS
	@$(PY) -m pytest -n 2 --dist loadscope --no-loadscope-reorder $(ARGS)
else
	@$(PY) -m coverage erase
	@$(PY) -m coverage run -m pytest -n 2 --dist loadscope --no-loadscope-reorder
	@$(PY) -m coverage combine -q
	@$(PY) -m coverage report
	@$(PY) -m coverage report --include=$(PURE) --fail-under=100
	@echo "Left out: the tests on a real Kubernetes, which need root and Go (make test-kubernetes)"
endif

test-kubernetes: $(READY)  ## The tests that need the real Kubernetes: make test-kubernetes [ARGS="-k name"]
	@$(PY) manage.py kubernetes build --kwok
	@CONTRACT_ON=kubernetes $(PY) -m pytest tests/kubernetes tests/contract $(ARGS)

check: $(READY)  ## Lint, format, types, architecture, migrations, vendored files
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@SECRET_KEY=check $(PY) -m mypy
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'
	@SECRET_KEY=check $(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@$(PY) -m console.vendor
	@$(PY) -m pytest -q --no-header tests/test_architecture.py

bench: $(READY)  ## Measure, beside the bars of the design: make bench [ARGS="claims"]
	@$(PY) -m tests.bench $(ARGS)

bench-kubernetes: $(READY)  ## Measure bursts on the real Kubernetes, beside a peer's figures: make bench-kubernetes
	@$(PY) manage.py kubernetes build --kwok
	@$(PY) -m tests.bench.kubernetes

format: $(READY)  ## Format the code and sort the imports
	@$(PY) -m ruff check --fix-only -q
	@$(PY) -m ruff format

clean:  ## Remove the virtualenv and caches; var/ (your data) stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* htmlcov build *.egg-info

$(READY): pyproject.toml constraints.txt
	@[ "$$(uname -s)" = Linux ] || { echo "AgentBox runs on Linux only: its sandboxes are Linux namespaces." >&2; exit 1; }
	@$(PY) -c '' 2>/dev/null || { python="$$($(FIND_PYTHON))" && rm -rf $(VENV) && \
		echo "Making $(VENV) with $$python" && "$$python" -m venv $(VENV); }
	@echo "Installing the dependencies (about a minute, only now and when they change)"
	@$(PY) -m pip install -q --disable-pip-version-check --no-input -c constraints.txt -e '.[dev]'
	@touch $@

# The newest Python on PATH; without one there, the newest in pyenv's folder. It has to run, and to have venv.
define FIND_PYTHON
	usable() { "$$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }; \
	for minor in 19 18 17 16 15 14 13 12; do \
		for python in "python3.$$minor" "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3."$$minor".*/bin/python; do \
			if usable "$$python"; then command -v "$$python"; exit 0; fi; \
		done; \
	done; \
	for python in python3 python; do if usable "$$python"; then command -v "$$python"; exit 0; fi; done; \
	echo "AgentBox needs Python 3.12 or newer with its venv module; none is on PATH or in pyenv." \
		"Install one, for example: pyenv install 3.13, or on Debian: apt-get install python3 python3-venv." >&2; \
	exit 1
endef
