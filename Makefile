# Two commands on a fresh machine: `make run` and `make test`. Both make their own virtual environment.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# Formats and lints the page's JavaScript. Installed outside of the source tree, as the tests' own JavaScript packages are.
BIOME := .cache/biome/node_modules/.bin/biome
# Three more than there are cores, because tests also wait. Every worker imports all tests and starts its own servers.
CORES := $(shell getconf _NPROCESSORS_ONLN)
WORKERS ?= $(shell expr $(CORES) + 3)
SECONDS ?= 1800

# Tests start hundreds of processes; where this is set, each would recompile everything it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-fast torture soak compatibility mutants cluster check audit format docs chromium bubblewrap nginx npm-packages wrk bench pictures build sbom lock clean

run: $(VENV)/.installed  ## install and run Headway
	$(BIN)/headway serve

test: $(VENV)/.installed-dev chromium bubblewrap nginx npm-packages  ## run all tests, on SQLite, on a temporary Postgres and in a real browser
	$(BIN)/python -m pytest -q -n $(WORKERS) -p tests.warm_workers --costs -m "not torture and not compatibility"

test-fast: $(VENV)/.installed-dev  ## the inner loop: the rules, SQL on SQLite, turns, commands about todos
	$(BIN)/python -m pytest -q -n $(CORES) -p tests.warm_workers --fast -m "not torture and not compatibility"

torture: $(VENV)/.installed-dev chromium bubblewrap  ## run the long tests, and print a table of the results
	$(BIN)/pytest -n $(WORKERS) --torture -m "(torture or proof or property) and not compatibility" -o faulthandler_timeout=0

soak: $(VENV)/.installed-dev  ## half an hour of everything at once on each database; SECONDS=300 and SEED=7 choose others
	$(BIN)/python -m tests.soak --database sqlite --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.soak --database postgres --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

compatibility: $(VENV)/.installed-dev  ## run the tests of the release, with other Pythons, frameworks, MCP servers and clients, and generated clients; needs package indexes
	$(BIN)/pytest -n $(WORKERS) -m compatibility -o faulthandler_timeout=0

mutants: $(VENV)/.installed-dev chromium bubblewrap nginx  ## put small faults into the code, count those that a test notices, and update docs/internals/proof.md (an hour)
	$(BIN)/python -m tests.mutants --anew --write

cluster: $(VENV)/.installed-dev  ## break a cluster of Postgres servers, PgBouncer and workers in every way, and update docs/internals/proof.md (30 minutes)
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && command -v pgbouncer nft ip >/dev/null && ls /usr/lib/*/faketime >/dev/null 2>&1 || { \
		echo "Installing postgresql, pgbouncer, libfaketime, nftables and iproute2 from Debian. The services that Debian starts are not used …"; \
		{ [ "$$(id -u)" = 0 ] && sudo=; } || sudo="sudo -n"; \
		{ command -v apt-get >/dev/null && { $$sudo $(APT_INSTALL) $(CLUSTER_PACKAGES) || { $$sudo apt-get update -q; $$sudo $(APT_INSTALL) $(CLUSTER_PACKAGES); }; } >/dev/null; } || { \
		echo "They cannot be installed automatically here: apt install $(CLUSTER_PACKAGES)"; exit 1; }; }
	@[ "$$(id -u)" = 0 ] || echo "This is not root: rows that need network namespaces or a small disk are left out. sudo make cluster runs all."
	$(BIN)/python -m tests.cluster --write $(ROWS)

check: $(VENV)/.installed-dev $(BIOME)  ## check formatting, lint, types, layers, shape, documents and manifests
	$(BIN)/python hatch_build.py
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIOME) check --error-on-warnings
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_manifests.py
	$(BIN)/pytest -q tests/test_shape.py tests/test_documents.py

audit: $(VENV)/.installed-dev  ## look for known vulnerabilities in the dependencies; fails without the service that knows them
	$(BIN)/python scripts/audit.py

format: $(VENV)/.installed-dev $(BIOME)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIOME) check --write

docs: $(VENV)/.installed-dev  ## generate docs/reference, the tables of settings, the blocking library and the catalogue of the MCP server from the code
	$(BIN)/python hatch_build.py
	$(BIN)/python scripts/write_reference.py

APT_INSTALL = apt-get install -y -q --no-install-recommends
CLUSTER_PACKAGES = postgresql pgbouncer libfaketime nftables iproute2

chromium:  ## install the browser for the tests of the page, if it is missing
	@command -v "$${HEADWAY_CHROMIUM:-chromium-headless-shell}" >/dev/null || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
		echo "Installing chromium, for the tests of the page …"; \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		  { $(APT_INSTALL) chromium-headless-shell || { apt-get update -q; $(APT_INSTALL) chromium-headless-shell || $(APT_INSTALL) chromium; }; } >/dev/null; } || { \
		echo "The tests of the page need chromium, which cannot be installed automatically here. Install it (apt install chromium,"; \
		echo "dnf install chromium, brew install chromium), or set its path: HEADWAY_CHROMIUM=/path/to/chromium make test"; exit 1; }; }

bubblewrap:  ## install the sandbox for the tests of commands, if it is missing
	@[ "$$(uname)" != Linux ] || command -v bwrap >/dev/null || { \
		echo "Installing bubblewrap, for the tests of commands …"; \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		  { $(APT_INSTALL) bubblewrap || { apt-get update -q; $(APT_INSTALL) bubblewrap; }; } >/dev/null; } || { \
		echo "The tests of commands need bubblewrap, which cannot be installed automatically here. Install it:"; \
		echo "apt install bubblewrap, or dnf install bubblewrap"; exit 1; }; }

nginx:  ## install the proxy for the tests of cells, if it is missing. The service that Debian starts is not used
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v nginx >/dev/null || { \
		echo "Installing nginx, for the tests of cells …"; \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		  { $(APT_INSTALL) nginx || { apt-get update -q; $(APT_INSTALL) nginx; }; } >/dev/null; } || { \
		echo "The tests of cells need nginx, which cannot be installed automatically here. Install it:"; \
		echo "apt install nginx, dnf install nginx, or brew install nginx"; exit 1; }; }

NEED_NPM = command -v npm >/dev/null || { \
	echo "Checks and tests of JavaScript need node 20 or newer, and npm. Install them:"; \
	echo "apt install nodejs npm, dnf install nodejs npm, or brew install node"; exit 1; }

npm-packages: $(VENV)/.installed-dev  ## install the JavaScript clients and servers that tests run, if they are missing
	@$(NEED_NPM)
	@$(BIN)/python -m tests.npm_packages clients mcp_clients mcp_servers

wrk:  ## install the load generator and Taskwarrior for the benchmarks, if they are missing
	@{ command -v wrk && command -v task; } >/dev/null || { \
		echo "Installing wrk and taskwarrior, for the benchmarks …"; \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		  { $(APT_INSTALL) wrk taskwarrior || { apt-get update -q; $(APT_INSTALL) wrk taskwarrior; }; } >/dev/null; } || \
		echo "They cannot be installed automatically here, so their rows are left out: apt install wrk taskwarrior"; }

bench: $(VENV)/.installed-dev chromium wrk  ## run the benchmarks and update bench/RESULTS.md (20 minutes)
	$(BIN)/python -m bench --write

pictures: $(VENV)/.installed-dev chromium  ## update the README's pictures
	$(BIN)/python scripts/take_pictures.py

build: $(VENV)/.installed-dev sbom  ## build the release into dist, with its list of components
	$(BIN)/python -m build --no-isolation

sbom: $(VENV)/.installed-dev  ## write the list of components (CycloneDX) into dist
	$(BIN)/python scripts/write_sbom.py dist

COMPILE = $(or $(UV),$(error make lock needs uv)) pip compile -q --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --generate-hashes

lock:  ## update requirements-dev.txt, and requirements.txt to the same versions
	$(COMPILE) --upgrade --extra dev -o requirements-dev.txt pyproject.toml
	printf 'editables\nhatchling\n' | $(COMPILE) --extra all -c requirements-dev.txt -o requirements.txt pyproject.toml -

clean:
	rm -rf $(VENV) .bench dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# uv where there is one, plain pip otherwise; the same files either way. Headway itself is linked last, because a folder has no hash.
ifdef UV
MAKE_VENV = $(UV) venv -q --allow-existing --python $(PYTHON) $(VENV)
INSTALL = $(UV) pip install -q --compile-bytecode --python $(BIN)/python
else
MAKE_VENV = $(PYTHON) -m venv $(VENV)
INSTALL = $(BIN)/python -m pip install -q --disable-pip-version-check
endif
INSTALL_PINNED = $(INSTALL) --require-hashes -r
LINK_HEADWAY = $(INSTALL) --no-deps --no-build-isolation -e .
COMPILE_HEADWAY = $(BIN)/python -m compileall -q src

$(VENV)/.installed: pyproject.toml requirements.txt
	@echo "Installing Headway into $(VENV) …"
	@$(MAKE_VENV)
	@$(INSTALL_PINNED) requirements.txt
	@$(LINK_HEADWAY)
	@$(COMPILE_HEADWAY)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml requirements-dev.txt
	@echo "Installing Headway and its test dependencies into $(VENV) …"
	@$(MAKE_VENV)
	@$(INSTALL_PINNED) requirements-dev.txt
	@$(LINK_HEADWAY)
	@$(COMPILE_HEADWAY)
	@touch $@ $(VENV)/.installed

$(BIOME): scripts/biome/package.json scripts/biome/package-lock.json
	@$(NEED_NPM)
	@echo "Installing Biome, which checks the page's JavaScript …"
	@mkdir -p .cache/biome
	@cp $^ .cache/biome
	@npm ci --prefix .cache/biome --silent --no-audit --no-fund --ignore-scripts
	@touch $@
