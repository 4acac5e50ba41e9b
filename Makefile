# The commands that people and CI run. Everything works from a clean clone with only the toolchains
# present: Rust, Python 3 with venv, Node.js with npm. `make help` lists the targets.

SHELL := /bin/bash
CARGO ?= cargo
PYTHON ?= python3
VENV := .venv
DATA ?= ./roost-data
# Seconds that each fuzz target runs in `make test`.
FUZZ_SECONDS ?= 10
# Seeds of `make chaos`, and the first.
SEEDS ?= 1000
SEED ?= 1
# Seeds of the history checker in `make test`.
HISTORY_SEEDS ?= 200
# Those with others beside the checked users: a quarantine is in two, a large crowd in the last.
HISTORY_OTHERS_SEEDS ?= 8
# The same over the nodes of a cluster: two at a time, of up to a minute each.
CLUSTER_SEEDS ?= 2
# With --rooms, devices are in a room too in half of them (docs/reliability.md).
HISTORY_ROOMS ?= --rooms

# One choice of packages and targets whenever tests are compiled: with another one, cargo would
# choose other features for the libraries and compile them once more.
EVERYTHING := --workspace --lib --bins --tests
# Tests that run the binary take this one, and do not build one that differs.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
workspace nodes scripts clients desktop-clients benchmarks history crowd disks zoo: \
  export ROOST_BIN ?= $(TARGET)/debug/roost
history-cluster: export ROOST_BIN ?= $(TARGET)/debug/roost
# The engine of a cluster, which tests run three of.
NATS := $(TARGET)/nats/nats-server
NATS_VERSION ?= latest
nodes benchmarks history-cluster chaos-cluster: export NATS_SERVER ?= $(NATS)
# Tests of several nodes, which wait for leases and elections most of the time; and all others.
NODES := cluster engine over_nodes
OTHERS := $(filter-out $(NODES),$(sort $(basename $(notdir $(wildcard crates/*/tests/*.rs))) \
  $(notdir $(patsubst %/main.rs,%,$(wildcard crates/*/tests/*/main.rs)))))
# Those that a plus joins run at the same time; what they say comes when each of them has ended.
STAGES := lint build tidy workspace+nodes+deny+fuzz history+history-cluster+benchmarks \
  crowd zoo clients
# What runs beside others is heard when it has ended: one that hangs has to have an end too.
BOUNDED := timeout --kill-after=30 45m
# Seconds of each attacker in `make hostile`.
HOSTILE_SECONDS ?= 10

.DEFAULT_GOAL := help
.PHONY: help serve build test lint deny tidy workspace scripts clients fuzz docs clean
.PHONY: benchmarks nodes history disks tiny chaos schedules bugs explore zoo hostile chromium
.PHONY: model scaling workloads nats cluster cluster-schedules chaos-cluster history-cluster
.PHONY: occupants crowd desktop-clients profanity desktop

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

serve: web/node_modules/ready ## Build a server and run it on $(DATA), with a web client at http://localhost:5280/.
	$(CARGO) build --release --package roost
	@mkdir -p $(DATA)
	@[ -e $(DATA)/roost.toml ] || sed 's|WEB_FOLDER|$(CURDIR)/web/node_modules|' packaging/try.toml \
	  > $(DATA)/roost.toml
	@echo 'Add users, in another terminal, or register in a client:'
	@echo '  ./target/release/roost user add alice@localhost --data $(DATA)'
	@echo 'Then open http://localhost:5280/'
	exec ./target/release/roost serve --data $(DATA)

build: ## Compile the server and every test once, for all that follows.
	$(CARGO) build $(EVERYTHING)

# What CI runs, in an order that fails early. Each stage says how long it took, and one that fails
# says last of all what did.
test: ## Set up what tests need and run everything.
	@set -e -o pipefail; log=$$(mktemp); trap 'rm -f $$log' EXIT; for stage in $(STAGES); do \
	  start=$$SECONDS; side=; [[ $$stage != *+* ]] || side='-j --output-sync=target'; \
	  $(MAKE) --no-print-directory $$side $${stage//+/ } 2>&1 | tee $$log || { \
	    echo "== $$stage failed:"; tests/failures $$log; exit 1; }; \
	  echo "== $$stage took $$((SECONDS - start)) s"; \
	done

lint: ## Formatting and clippy, with warnings as errors. Compiles the benchmarks too.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

deny: ## Licences, origins and known vulnerabilities of libraries.
	@nice -n 5 tests/deny $(TARGET)/tools

tidy: ## The tidy test alone.
	$(CARGO) test --workspace --test tidy

workspace: build ## All tests of the workspace but `nodes`: unit, property, scripts, tidy.
	$(BOUNDED) $(CARGO) test --workspace --lib --bins $(addprefix --test ,$(OTHERS))
	$(CARGO) test --workspace --doc --quiet

nodes: build $(NATS) ## Tests of several nodes and servers of the engine of a cluster.
	$(BOUNDED) $(CARGO) test --workspace $(addprefix --test ,$(NODES))

scripts: build ## Conversation scripts alone, over every transport and variant of the server.
	$(CARGO) test --workspace --test scripts

clients: build $(VENV)/ready chromium profanity
clients: tests/clients/node_modules/ready web/node_modules/ready ## Clients that nobody here wrote.
	$(VENV)/bin/python -m pytest -q tests/clients --ignore tests/clients/desktop

# Dino goes to the usual port of localhost and trusts what the system trusts: a network and mounts
# that nobody else has.
desktop-clients: build $(VENV)/ready desktop ## Gajim and Dino under Xvfb, as root.
	unshare --net --mount sh -c 'ip link set lo up && ROOST_OWN_NETWORK=1 \
	  exec $(VENV)/bin/python -m pytest -q tests/clients/desktop'

benchmarks: build $(NATS) $(VENV)/ready ## Every script of bench/, tiny: whether it works.
	$(VENV)/bin/python -m pytest -q tests/benchmarks

workloads: ## Actor workloads beside Erlang and a library; writes docs/scaling/workloads.md.
	bench/workloads

$(VENV)/ready: tests/clients/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

tests/clients/node_modules/ready: tests/clients/package-lock.json
	cd tests/clients && npm ci --no-audit --no-fund
	touch $@

web/node_modules/ready: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --ignore-scripts
	touch $@

# Programs that tests drive. Without the right to install one, whoever runs the tests is told so,
# and they fail instead of being left out. $(1): programs, $(2): packages.
define install
@if [ -z '$(1)' ] || which $(1) > /dev/null; then exit 0; fi; \
if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
  apt-get update -qq && apt-get install -y -qq --no-install-recommends $(2) > /dev/null; \
else \
  echo 'Needed: apt-get install $(2)' >&2; exit 1; \
fi
endef

# A browser for the tests of the web client, or the one that CHROMIUM names.
chromium:
	$(call install,$(if $(CHROMIUM),,chromium),chromium)

profanity:
	$(call install,profanity,profanity)

DESKTOP := gajim dino-im xvfb dbus libglib2.0-bin imagemagick xdotool
desktop:
	$(call install,gajim dino-im Xvfb dbus-daemon gdbus import xdotool,$(DESKTOP))

HISTORY := $(CARGO) run --quiet --package testkit --bin history --

OCCUPANTS := $(CARGO) run --quiet --package testkit --bin occupants --

history: build ## A short run of the history checker: a server that is killed.
	$(HISTORY) --seeds $(HISTORY_SEEDS) $(HISTORY_ROOMS) \
	  --faults kills,cuts,stops,amnesia,unsynced,actors,moves
	$(HISTORY) --seeds $(HISTORY_OTHERS_SEEDS) $(HISTORY_ROOMS) \
	  --faults kills,cuts,stops,amnesia,unsynced,actors,moves,others

history-cluster: build $(NATS) ## The same over the nodes of a cluster, for a minute.
	$(HISTORY) --cluster all --rooms --seeds $(CLUSTER_SEEDS)

disks: build ## SEEDS of a server that is killed, and whose disk is full or fails for a while.
	$(HISTORY) --seeds $(SEEDS) --seed $(SEED) --faults all

tiny: build ## SEEDS of a server that is killed, with bounds as small as they can be configured.
	$(HISTORY) --tiny --seeds $(SEEDS) --seed $(SEED) \
	  --faults kills,cuts,stops,amnesia,unsynced,actors,moves,others

crowd: build ## A room of 200 occupants for some seconds, and a server that is killed.
	$(OCCUPANTS) --occupants 200 --seconds 8 --kills 1 --flaps 3000

occupants: ## A room of 2,000, half of them over flapping links, and a release build that is killed.
	$(CARGO) build --release --package roost
	ROOST_BIN=$(TARGET)/release/roost $(OCCUPANTS) --seed $(SEED)

chaos: ## A long run: SEEDS=1000 kills a release build at least 1,000 times.
	$(CARGO) build --release --package roost
	ROOST_BIN=$(TARGET)/release/roost $(HISTORY) --seeds $(SEEDS) --seed $(SEED) $(HISTORY_ROOMS) \
	  --faults kills,cuts,stops,amnesia,unsynced,actors,moves

chaos-cluster: $(NATS) ## The same over nodes of a cluster and its engine, which die or are cut off.
	$(CARGO) build --release --package roost
	ROOST_BIN=$(TARGET)/release/roost $(HISTORY) --cluster all --rooms \
	  --jobs 1 --seeds $(SEEDS) --seed $(SEED)

zoo: build ## A moment of every attacker of tests/hostile: whether the server stands it.
	$(PYTHON) tests/hostile/zoo.py

hostile: ## A long run against a release build, with its table in docs/security.md.
	$(CARGO) build --release --package roost
	ROOST_BIN=$(TARGET)/release/roost $(PYTHON) tests/hostile/zoo.py \
	  --seconds $(HOSTILE_SECONDS) --write docs/security.md

nats: $(NATS) ## The engine of a cluster, built from its source.

# Its source comes as a module; without Go whoever runs the tests is told so, and they fail.
$(NATS):
	@command -v go > /dev/null || { echo 'Go is needed, to build nats-server' >&2; exit 1; }
	GOBIN=$(dir $(NATS)) go install github.com/nats-io/nats-server/v2@$(NATS_VERSION)

cluster: $(NATS) ## Three servers of the engine and three nodes on this machine, in $(DATA)-cluster.
	$(CARGO) build --release --package roost
	exec packaging/try-cluster target/release/roost $(NATS) $(DATA)-cluster

cluster-schedules: ## Nodes of a cluster over a twin of the engine: SEEDS of them, from SEED.
	SCHEDULES=$(SEEDS) SCHEDULE=$(SEED) $(CARGO) test --release --package cluster --lib \
	  sim::tests::schedules_hold -- --nocapture

schedules: ## The same clients on a node inside the test, under a virtual clock: SEEDS of them.
	SCHEDULES=$(SEEDS) SCHEDULE=$(SEED) $(CARGO) test --release --package server \
	  --test schedules -- --nocapture

explore: ## Every interleaving of small worlds of delivery: minutes, and gigabytes of memory.
	$(CARGO) test --release --package delivery --test explore -- --include-ignored --nocapture

bugs: ## Whether the history checker, the exploration and scripts find bugs on purpose.
	$(CARGO) build --package roost --features bugs --target-dir $(TARGET)/bugs
	ROOST_BIN=$(TARGET)/bugs/debug/roost $(HISTORY) --bugs --rooms --seeds 50 \
	  --faults kills,cuts,stops,amnesia,unsynced
	$(CARGO) test --package delivery --features bugs --target-dir $(TARGET)/bugs \
	  --test explore -- --nocapture bugs::
	$(CARGO) test --package cluster --target-dir $(TARGET)/bugs --lib -- \
	  --nocapture each_flaw_is_found
	ROOST_BIN=$(TARGET)/bugs/debug/roost tests/rules

model: ## A long run of the model of groups: SEEDS random histories of up to 40 commands, from SEED.
	GROUP_MODEL_CASES=$(SEEDS) GROUP_MODEL_SEED=$$(( $(SEED) - 1 )) \
	  $(CARGO) test --release --package group --lib \
	  nodes_behave_like_the_model -- --nocapture

scaling: workloads ## Simulated nodes and actor workloads; writes docs/scaling.md and docs/scaling/.
	bench/scaling

fuzz: ## A short run of every fuzz target, with the stable toolchain.
	@$(BOUNDED) nice -n 5 tests/fuzz_shortly $(FUZZ_SECONDS)

docs: ## Write the documents that are made from the code.
	$(CARGO) run --quiet --package xtask -- xeps
	$(CARGO) run --quiet --package xtask -- sections

clean: ## Remove what was built and what tests installed.
	$(CARGO) clean
	rm -rf $(VENV) tests/clients/node_modules web/node_modules
