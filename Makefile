# What people and CI both call. Needs python3 (3.11 or newer) with venv, git and make; nothing else.
PYTHON ?= python3
BIN := .venv/bin
# Most tests wait for something, so more of them than there are processors.
WORKERS ?= 3
# Start none of the tests that only `make test-all` has after this time, in seconds since 1970.
LONG_UNTIL ?=
# The same for all tests that start a product, a browser, an engine, a guest or an agent.
HEAVY_UNTIL ?=
PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 60 --durations-min 10
# A skip for want of one of these fails `make test-all`.
HANDRAIL_TEST_REQUIRE ?= browser,bubblewrap,docker,postgres,user,microvm,gettext,frameworks,agents,bucket,s3rver,kubernetes,gvisor
# The tests that ask the database by themselves. Of one with many cases, the first: the others ask it the same.
ASK_DATABASE := -m "database and not (product or browser or engine or guest or agents)" --cases 1
ASK_DATABASE += tests/approvals tests/dashboard tests/workspaces/test_schedules.py tests/workspaces/hosts/test_hints.py
ASK_DATABASE += tests/workspaces/hosts/test_one_operation.py tests/workspaces/secrets/test_keyring.py
# Where the tests on a cluster are: collecting all of them takes half a minute.
KUBERNETES_TESTS := tests/bench/kubernetes tests/workspaces/kubernetes tests/workspaces/drivers/test_contract.py
# Compiled once, not at each start of a part.
unexport PYTHONDONTWRITEBYTECODE
INPUTS := pyproject.toml constraints.txt hatch_build.py client/pyproject.toml package.json package-lock.json Makefile $(wildcard locale/*/LC_MESSAGES/*.po)

.PHONY: up setup setup-tests check test test-all test-kubernetes test-sqlite test-postgres lint format messages bench day demo clean
.PHONY: images image-docker image-microvm
.DEFAULT_GOAL := up

up: setup ## run Handrail in the foreground
	@exec $(BIN)/python manage.py up

setup: .venv/.ready ## the environment in .venv

setup-tests: .venv/.ready-tests

check: setup-tests ## the quick tests that start no product, browser, engine or guest; for each save
	@$(PYTEST) --ring check $(ARGS)

test: setup-tests ## what a laptop can run, each behaviour at least once; narrow with ARGS="tests/workspaces/store -k sign_in"
	@$(PYTEST) --ring test -rs $(ARGS)

test-all: test-kubernetes test-sqlite test-postgres ## every guest, kill and round, on both databases; what is missing fails, as in .ci/run

# On two clusters, each with one process of tests, since these kill parts of their cluster; WORKERS=0: one after the other.
test-kubernetes: CLUSTERS = $(if $(WORKERS:0=),2,1)
test-kubernetes: setup-tests ## the tests on a Kubernetes cluster, which `python -m bench.kubernetes build` makes the programs of
	@HANDRAIL_TEST_REQUIRE=$(HANDRAIL_TEST_REQUIRE) $(BIN)/python -m bench.kubernetes run --clusters $(CLUSTERS) \
		$(PYTEST) --ring all -m kubernetes --numprocesses $(CLUSTERS:1=0) $(KUBERNETES_TESTS) $(ARGS)

test-sqlite: setup-tests
	@HANDRAIL_TEST_REQUIRE=$(HANDRAIL_TEST_REQUIRE) $(PYTEST) --ring all -m "not kubernetes" $(LONG_UNTIL:%=--long-until %) $(HEAVY_UNTIL:%=--heavy-until %) $(ARGS)

# The threads that the last event loop kept hold connections until the test process ends, and psycopg warns of each.
test-postgres: setup-tests ## the tests that ask the database, on the server that HANDRAIL_TEST_POSTGRES_URL names
	@test -n "$$HANDRAIL_TEST_POSTGRES_URL" || { echo "HANDRAIL_TEST_POSTGRES_URL names no server" >&2; exit 1; }
	@HANDRAIL_TEST_REQUIRE=$(HANDRAIL_TEST_REQUIRE) HANDRAIL_TEST_DATABASE_URL="$$HANDRAIL_TEST_POSTGRES_URL" $(PYTEST) --ring all \
		$(ASK_DATABASE) -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning $(ARGS)

lint: setup-tests ## form and lint of code and templates, imports between packages, time of patterns, and migrations in step with models
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/djlint --check --quiet templates
	@$(BIN)/djlint --lint --quiet templates
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python deploy/database_calls.py
	@$(BIN)/python deploy/patterns/check.py
	@HANDRAIL_HOME=$$(mktemp -d) && export HANDRAIL_HOME && trap 'rm -rf "$$HANDRAIL_HOME"' EXIT && \
		$(BIN)/python manage.py makemigrations --check --dry-run -v 1

format: setup-tests
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/djlint --reformat --quiet templates || true

messages: setup-tests ## the texts of pages into locale/, for translators; needs GNU gettext
	@deploy/messages.sh

bench: setup-tests ## the benchmarks; figures go to bench/results
	@$(BIN)/python -m bench $(ARGS)

day: setup-tests ## a team's day with faults, and a checker that shares no code with the product; ARGS="--minutes 60 --database postgres"
	@$(BIN)/python -m bench.day $(ARGS)

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
	@echo "1/4 a Python environment"
	@test -x $(BIN)/python || deploy/with-dots.sh $(PYTHON) -m venv .venv || { echo "python3 cannot make an environment here; on Debian and Ubuntu: apt-get install python3-venv" >&2; rm -rf .venv; exit 1; }
	@{ PYTHONUNBUFFERED=1 $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt --use-pep517 -e . -e ./client || touch .venv/.failed; } | $(BIN)/python deploy/pip_progress.py
	@! rm .venv/.failed 2>/dev/null
	@touch $@

.venv/.ready-tests: .venv/.ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
