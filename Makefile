# The commands that people and CI run. Everything works from a clean clone with only the toolchains
# present: Rust, Python 3 with venv, Node.js with npm. `make help` lists the targets.

SHELL := /bin/bash
CARGO ?= cargo
PYTHON ?= python3
VENV := .venv
DATA ?= ./roost-data
# Seconds that each fuzz target runs in `make test`.
FUZZ_SECONDS ?= 10

.DEFAULT_GOAL := help
.PHONY: help serve build test lint unit tidy scripts clients fuzz docs clean

help: ## List the targets.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

serve: ## Build a server and run it on $(DATA), ports 5222 (STARTTLS) and 5223 (direct TLS).
	$(CARGO) build --release --package roost
	@echo 'Add users, in another terminal:'
	@echo '  ./target/release/roost user add alice@localhost --data $(DATA)'
	exec ./target/release/roost serve --data $(DATA)

build: ## Build the server as tests use it.
	$(CARGO) build --package roost

# What CI runs. `lint`, `tidy` and `fuzz` are targets of their own until the whole tree passes them.
test: ## Set up what tests need and run unit tests, conversation scripts and real clients.
	$(MAKE) unit
	$(MAKE) scripts
	$(MAKE) clients

lint: ## Formatting and clippy, with warnings as errors.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# Scripts are a test target of testkit too; they have a target of their own below. Benchmarks are
# compiled by clippy and run by hand.
unit: ## Unit and property tests of every crate.
	$(CARGO) test --workspace --exclude testkit --exclude xtask --lib --bins
	$(CARGO) test --package server --test node
	$(CARGO) test --package testkit --lib

tidy: ## The tidy test alone.
	$(CARGO) test --package xtask

scripts: build ## Conversation scripts over every transport and variant of the server.
	$(CARGO) test --package testkit --test scripts

clients: build $(VENV)/ready tests/clients/node_modules/ready ## Clients that nobody here wrote.
	$(VENV)/bin/python -m pytest -q tests/clients

$(VENV)/ready: tests/clients/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

tests/clients/node_modules/ready: tests/clients/package-lock.json
	cd tests/clients && npm ci --no-audit --no-fund
	touch $@

fuzz: ## A short run of every fuzz target, with the stable toolchain.
	@tests/fuzz_shortly $(FUZZ_SECONDS)

docs: ## Write the documents that are made from the code.
	$(CARGO) run --quiet --package xtask -- xeps

clean: ## Remove what was built and what tests installed.
	$(CARGO) clean
	rm -rf $(VENV) tests/clients/node_modules
