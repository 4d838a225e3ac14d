# SPDX-License-Identifier: MIT
# The front door: every target prepares what it needs. CMake does the work, in build/.
#
#   make             build everything; the command is build/multihead
#   make demo        build, then show what it can do
#   make test        build, then run the tests
#   make bench       build, then measure this machine and how near its limits we come
#   make compare     build, then measure PyTorch and ONNX Runtime beside it; OPTIONS=--quick
#   make compare-training      ... PyTorch training the same translator; OPTIONS="--data train.tsv"
#   make compare-translating   ... CTranslate2 with the same model; OPTIONS="-m DIR --input FILE"
#   make install     PREFIX=/usr/local DESTDIR=
#   make uninstall   remove what `make install` put there; same DESTDIR
#   make check-neon  build for 64-bit ARM and check the kernels in an emulator
#   make format      lay out the C sources with clang-format
#   make clean

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
JOBS    ?= $(shell nproc)

all: build

setup:
	@sh tools/setup.sh

configure: setup
	@log=$$(cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) 2>&1) || \
	    { echo "$$log" >&2; exit 1; }

# MAKEFLAGS: the inner make has its own -j, and does not say where it is
build: configure
	@MAKEFLAGS=--no-print-directory cmake --build $(BUILD) -j $(JOBS)

demo: build
	@sh tools/demo.sh $(BUILD)

test: build
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

bench: build
	@$(BUILD)/multihead bench

# makes bench/venv the first time; --help lists the options
compare: build
	@sh bench/compare.sh --library $(BUILD)/libmultihead.so --out $(BUILD) $(OPTIONS)

compare-training compare-translating: build
	@cmake --build $(BUILD) --target turns >/dev/null
	@sh bench/compare.sh $(@:compare-%=%) --build $(BUILD) $(OPTIONS)

install: build
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD)

uninstall:
	@sh tools/uninstall.sh $(BUILD) "$(DESTDIR)"

check-neon:
	@sh tools/check_neon.sh

format:
	@clang-format -i $$(git ls-files '*.c' '*.h' '*.inc')

clean:
	@rm -rf $(BUILD)

.PHONY: all setup configure build demo test bench compare compare-training compare-translating \
        install uninstall check-neon format clean
