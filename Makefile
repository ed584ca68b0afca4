# The front door: every target works on a fresh Debian 12 machine and keeps what it makes inside the checkout.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

FUZZ_SECONDS ?= 60
# Where the programs that measure leave their figures; `benchmarks` is what BENCHMARKS.md is made of.
RESULTS ?= build/results
HUTCH := build/bin/hutch

export HUTCH_DATA_DIR := $(CURDIR)/build/data
export PIP_CACHE_DIR := $(CURDIR)/build/cache/pip
export UV_CACHE_DIR := $(CURDIR)/build/cache/uv
export PYTHONDONTWRITEBYTECODE := 1
ifeq ($(CI),true)
export HUTCH_TESTS_MUST_RUN := 1
endif

# Where the default template could not be built, for want of a network, the bare one stands in.
WITHOUT_NETWORK = $(if $(wildcard build/data/default-template-built),,--template bare)

.PHONY: help setup build template run test check asan asan-build tsan tsan-build fuzz bench bench-peers attacks density soak load crash bulk overhead cells interop conformance api-asan api-tsan clean

help:
	@printf '%s\n' \
	  'Hutch runs untrusted Python in sandboxes that start in milliseconds.' \
	  '' \
	  'Begin here' \
	  '  make run       build everything and run examples/sales.py in a sandbox' \
	  '  make test      everything that must pass: checks, unit tests, scenarios, attacks, address sanitizer' \
	  '' \
	  'Day by day' \
	  '  make setup     install the Debian packages (as root), or say which are missing' \
	  '  make build     compile build/bin/hutch' \
	  '  make check     format, clang-tidy, include directions, file sizes; tools/check --changed is quicker' \
	  '  make asan      unit tests under the address and undefined-behaviour sanitizers' \
	  '  make tsan      unit tests under the thread sanitizer' \
	  '  make api-asan  scenarios of the API with the sanitizers of `make asan` in the daemon; api-tsan: of `make tsan`' \
	  '  make fuzz      every fuzzer for FUZZ_SECONDS=$(FUZZ_SECONDS) seconds' \
	  '' \
	  'Prove it' \
	  '  make bench     how fast this machine starts sandboxes' \
	  '  make bench-peers  the same work on Hutch and its peers; tools/setup-peers installs those' \
	  '  make attacks   programs that try to get out; all must fail' \
	  '  make density   100 sandboxes at once, then 2,000 open sessions' \
	  '  make soak      ten thousand runs; nothing may leak' \
	  '  make load      200 clients of one daemon, a fifth of them hostile, for five minutes' \
	  '  make crash     the daemon is killed fifty times under load; nothing that was promised may be lost' \
	  '  make bulk      gigabytes in, out and printed; the daemon must not grow' \
	  '  make overhead  what HTTP costs over a call of the engine' \
	  '  make cells     what one more cell and a shown plot cost' \
	  '                 all of these that measure take RESULTS=DIRECTORY for their figures; see BENCHMARKS.md' \
	  '  make interop   MCP suites and clients from npm' \
	  '  make conformance  Schemathesis: every answer of the API is one that openapi.json has' \
	  '' \
	  '  make clean     remove build directories, with the templates and caches in them' \
	  '' \
	  'One test:  build/bin/base_test --gtest_filter=Name.*   or   ctest --preset release -R NAME' \
	  'Templates built here are kept in build/data; to use them by hand: export HUTCH_DATA_DIR=$$PWD/build/data'

setup:
	@tools/setup packages

build: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release

template: build
	@tools/setup template

run: template
	@rm -rf build/example-out
	@set -x; $(HUTCH) run --explain $(WITHOUT_NETWORK) --out build/example-out examples/sales.py
	@printf '\nBrought out of the sandbox:\n'
	@find build/example-out -type f -printf '  %p  %s bytes\n'

test: template
	@tools/setup template viz
	@tools/check --quick
	ctest --preset release -j 2 -LE attack --output-on-failure --no-tests=error
	@# The attacks mostly wait. What comes after them is built meanwhile, with what they leave of the processors.
	@nice -n 19 $(MAKE) --no-print-directory asan-build >build/asan-build.log 2>&1 & building=$$!; result=0; \
	  ctest --preset release -L attack --output-on-failure --no-tests=error || result=$$?; \
	  wait $$building || { tail -n 60 build/asan-build.log; exit 1; }; \
	  exit $$result
	@$(MAKE) --no-print-directory asan

check: build
	@tools/check

# Only the unit test programs are built: the scenarios and attacks run against the release build.
asan-build tsan-build: setup
	@cmake --preset $(@:-build=) >/dev/null
	@targets=$$(ninja -C build-$(@:-build=) -t targets all | sed -n 's/^\([a-z0-9_]*_test\): phony$$/\1/p'); \
	  cmake --build --preset $(@:-build=) --target $$targets

asan: asan-build
tsan: tsan-build
asan tsan:
	ctest --preset $@ -j 2 -L unit --output-on-failure --no-tests=error

# What any process of hutch has to report is in build-asan/report.PID, shown, and a failure. Threads that nobody joined are
# not: a command that is left by a second Ctrl-C ends at once, whatever its threads do.
api-asan api-tsan: template
	@cmake --preset $(@:api-%=%) >/dev/null
	@cmake --build --preset $(@:api-%=%) --target hutch
	@report=$(CURDIR)/build-$(@:api-%=%)/report; result=0; rm -f "$$report".*; \
	  ASAN_OPTIONS=log_path=$$report:quarantine_size_mb=16 UBSAN_OPTIONS=log_path=$$report \
	    TSAN_OPTIONS=log_path=$$report:report_thread_leaks=0 \
	    ctest --preset $(@:api-%=%) -R '^scenario\.(api_|mcp$$)' --output-on-failure --no-tests=error || result=$$?; \
	  for file in "$$report".*; do [[ ! -e $$file ]] || { cat "$$file"; result=1; }; done; \
	  exit $$result

fuzz: setup
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz
	@shopt -s nullglob; fuzzers=(build-fuzz/bin/*_fuzz); \
	  (($${#fuzzers[@]})) || { echo 'fuzz: no fuzzers were built'; exit 1; }; \
	  for fuzzer in "$${fuzzers[@]}"; do \
	    name=$${fuzzer##*/}; corpus=build-fuzz/corpus/$$name; mkdir -p "$$corpus"; \
	    printf 'fuzz: %s for %s s\n' "$$name" '$(FUZZ_SECONDS)'; \
	    "$$fuzzer" -max_total_time='$(FUZZ_SECONDS)' -artifact_prefix="build-fuzz/$$name-" -print_final_stats=1 "$$corpus" \
	      >"build-fuzz/$$name.log" 2>&1 || { tail -n 60 "build-fuzz/$$name.log"; exit 1; }; \
	    grep number_of_executed_units "build-fuzz/$$name.log" || true; \
	  done

bench: template
	@mkdir -p '$(RESULTS)'
	$(HUTCH) bench --save '$(RESULTS)/starts.json'

bench-peers: template
	@mkdir -p '$(RESULTS)'
	python3 tests/performance/peers/main.py --json '$(RESULTS)/peers.json'

attacks: template
	python3 tests/attacks/run.py

density: template
	@mkdir -p '$(RESULTS)'
	python3 tests/performance/density.py --json '$(RESULTS)/density.json'

soak: template
	python3 tests/performance/soak.py

load: template
	@mkdir -p '$(RESULTS)'
	python3 tests/performance/load.py --json '$(RESULTS)/load.json'

crash: template
	@mkdir -p '$(RESULTS)'
	python3 tests/performance/crash.py --json '$(RESULTS)/crash.json'

bulk: template
	@mkdir -p '$(RESULTS)'
	python3 tests/performance/bulk.py --json '$(RESULTS)/bulk.json'

overhead: template
	@mkdir -p '$(RESULTS)'
	python3 tests/performance/overhead.py --json '$(RESULTS)/overhead.json'

cells: template
	@mkdir -p '$(RESULTS)'
	python3 tests/performance/cells.py --json '$(RESULTS)/cells.json'

interop: template
	tests/interop/mcp/run.sh $(HUTCH)

conformance: template
	python3 tests/interop/conformance.py

clean:
	rm -rf build build-*
