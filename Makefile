# Everything a person needs is here; the build itself is meson's.
BUILD  ?= build
PREFIX ?= /usr/local
PYTHON ?= /usr/bin/python3

.PHONY: all setup run attacks test unit system check-sanitize check-valgrind check-kernel fuzz bench install format lint clean

all: setup
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) --prefix=$(PREFIX) >/dev/null
	@out=$$(ninja -C $(BUILD) --quiet) || { echo "$$out"; exit 1; }

setup:
	@scripts/setup

# The agent on a sample project: with a model if there is a key, else a recorded conversation in a real box.
run: all
	@scripts/demo $(BUILD)/hutch

# Shows a box at work: a small program tries to harm the host; see what it could do and what it changed.
attacks: all
	@scripts/demo-attacks $(BUILD)/hutch

test: all
	@scripts/test $(BUILD)

# The same suite with AddressSanitizer and UndefinedBehaviorSanitizer.
check-sanitize: setup
	@test -f build-sanitize/build.ninja || meson setup build-sanitize -Db_sanitize=address,undefined >/dev/null
	@out=$$(ninja -C build-sanitize --quiet) || { echo "$$out"; exit 1; }
	@scripts/test build-sanitize

check-valgrind: setup
	@test -f build-valgrind/build.ninja || meson setup build-valgrind -Dglibc=true >/dev/null
	@ninja -C build-valgrind --quiet hutch hutch-guest hutch-skeleton
	@scripts/valgrind build-valgrind/hutch

# FUZZ_SECONDS for each target; 5 minutes before a release.
fuzz: setup
	@scripts/fuzz $(or $(FUZZ_SECONDS),60)

# hutch on Debian's own kernel, in QEMU: some minutes. Status 77: QEMU or the kernel's package is missing.
check-kernel: all
	@scripts/check-kernel --hutch $(BUILD)/hutch

bench: setup
	@test -f build-bench/build.ninja || meson setup build-bench -Dbench=true --buildtype=release >/dev/null
	@out=$$(ninja -C build-bench --quiet) || { echo "$$out"; exit 1; }
	@$(PYTHON) bench/bench.py build-bench

install: all
	@meson configure $(BUILD) -Dprefix=$(PREFIX) >/dev/null
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --quiet

format: setup
	@git ls-files '*.c' '*.h' ':!tasks' | xargs clang-format -i

lint: all
	@scripts/lint $(BUILD)

clean:
	@rm -rf build build-sanitize build-weak build-bench build-fuzz build-valgrind
