# What people and CI both call. Needs python3 (3.11 or newer) with venv, git and make; nothing else.
PYTHON ?= python3
BIN := .venv/bin
# Most tests wait for something, so more of them than there are processors.
WORKERS ?= 3
# Compiled once, not at each start of a part.
unexport PYTHONDONTWRITEBYTECODE
INPUTS := pyproject.toml constraints.txt hatch_build.py package.json package-lock.json Makefile

.PHONY: up setup setup-tests test lint format bench demo images image-docker image-microvm clean
.DEFAULT_GOAL := up

up: setup ## run Handrail in the foreground
	@exec $(BIN)/python manage.py up

setup: .venv/.ready ## the environment in .venv

setup-tests: .venv/.ready-tests

test: setup-tests ## all tests, in as many processes as WORKERS says; narrow with ARGS="tests/skeleton -k sign_in"
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

lint: setup-tests ## form, lint, and migrations in step with the models
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@HANDRAIL_HOME=$$(mktemp -d) && export HANDRAIL_HOME && trap 'rm -rf "$$HANDRAIL_HOME"' EXIT && \
		$(BIN)/python manage.py makemigrations --check --dry-run -v 1

format: setup-tests
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup-tests ## the benchmarks; figures go to bench/results
	@$(BIN)/python -m bench $(ARGS)

demo: setup ## a scripted agent in a workspace of this repository, beside a running `make up`; ARGS=--unattended decides
	@$(BIN)/python manage.py demo $(ARGS)

images: image-docker image-microvm ## base images for the docker and microvm drivers, of this machine's own packages

image-docker: ## handrail/base on the Docker engine; needs mmdebstrap
	@deploy/images/docker.sh

image-microvm: ## kernel, initramfs and root for microVMs, into HANDRAIL_HOME/images; needs mmdebstrap and busybox-static
	@deploy/images/microvm.sh

clean: ## the environment and what the build brought; never the data in var/
	rm -rf .venv static/vendor

# A stamp for each, so that the second `make up` starts at once. Failing steps leave no stamp and are done again.
.venv/.ready: $(INPUTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Handrail needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another: make up PYTHON=python3.12")'
	@echo "Setting up .venv (once; takes a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "python3 cannot make an environment here; on Debian and Ubuntu: apt-get install python3-venv" >&2; rm -rf .venv; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/.ready-tests: .venv/.ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,postgres,redis]'
	@touch $@
