# Every target sets up what it needs; see compose/bootstrap.
.DEFAULT_GOAL := help
.PHONY: help demo test prove bench check format clean

help: ## show this
	@sed -n 's/^\([a-z]*\): *## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: ## see tasks survive everything (ARGS="…" go to the demo)
	@compose/bootstrap demo env PYTHONPATH=compose python -m demo $(ARGS)

test: ## run all tests against real servers (PYTEST_ARGS="…" go to pytest)
	@compose/bootstrap test pytest -n 3 $(PYTEST_ARGS)

prove: ## prove the promises, one line and one figure each (PYTEST_ARGS="--proof-rounds 5" …)
	@compose/bootstrap test pytest -q -n 2 tests/proofs --promptly 1 $(PYTEST_ARGS)

bench: ## measure against floors and peers (ONLY="drain life", SIZE=smoke|full|long)
	@compose/bootstrap bench env PYTHONPATH=tests:compose python -m benchmarks --size $(or $(SIZE),full) $(ONLY)

check: ## format, lint, import contracts, types
	@compose/bootstrap check poe --executor simple check

format: ## reformat and fix what can be fixed
	@compose/bootstrap check sh -c 'ruff check --fix-only --quiet . && ruff format .'

clean: ## remove everything that was made here
	rm -rf .venv .tooling build dist uv.lock .coverage .hypothesis .mypy_cache .pytest_cache \
		.ruff_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} + -o -name '*.egg-info' -prune -exec rm -rf {} +
