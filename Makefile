# SPDX-License-Identifier: Apache-2.0
# The front door. CMake builds (see CMakePresets.json), scripts/ do the rest.
#   make run ARGS='-p "Say hello"'     passes arguments on to the command
.PHONY: help run build test models install format lint fuzz clean
.NOTPARALLEL:

PREFIX ?= /usr/local

help: ## list what can be done
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 18

run: build ## install what is missing, build, fetch a small model, chat with it
	@scripts/fetch-models.py smollm2 </dev/null >/dev/null
	@scripts/run.sh $(ARGS)

build: ## the library and the command, into build/release
	@scripts/setup.sh build
	@scripts/build.sh release postern postern_cli

test: ## all tests, in a release and in a sanitizer build
	@scripts/test.sh

models: ## fetch the models the tests use
	@scripts/setup.sh build
	@scripts/fetch-models.py all

install: build ## install below PREFIX (default /usr/local)
	@cmake --install build/release --prefix "$(PREFIX)"

format: ## reformat the C files
	@scripts/format.sh --fix

lint: ## what static analysers say; not part of `make test`
	@scripts/lint.sh

fuzz: ## fuzz every target for SECONDS (default 60) each
	@scripts/fuzz.sh all $(or $(SECONDS),60)

clean: ## delete build/; fetched models stay
	@rm -rf build
