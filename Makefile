# SPDX-License-Identifier: MIT
# The front door: every target prepares what it needs. CMake does the work, in build/.
#
#   make             build the libraries and the command, build/multihead
#   make demo        build, then show what it can do
#   make test        build the tests and examples, too, and run them
#   make tests       build them without running them
#   make python      build the Python package into build-python/venv and test it; PACKAGES="torch transformers"
#                    are installed there, too, and tested with it
#   make media       install libpng, libjpeg-turbo and libsndfile and build libmultihead-media, too: PNG and JPEG,
#                    FLAC, OGG and MP3 files
#   make mpi         install MPI and build libmultihead-mpi, too: training and long sequences on several machines
#   make notebooks   make python, then python/examples as notebooks with their results, in build-python/notebooks
#   make bench       build, then measure this machine and how close to its limits we get
#   make compare     build, then measure PyTorch and ONNX Runtime beside it; OPTIONS=--quick
#   make compare-training      ... PyTorch training the same translator; OPTIONS="--data train.tsv"
#   make compare-lm            ... PyTorch training the same language model; OPTIONS=--quick
#   make compare-translating   ... CTranslate2 with the same model; OPTIONS="-m DIR --input FILE"
#   make compare-models        ... ONNX Runtime, OpenVINO and sentence-transformers running MiniLM
#   make compare-generation    ... transformers, CTranslate2 and llama.cpp generating text
#   make compare-python        ... PyTorch and transformers through Python; OPTIONS=--quick
#   make compare-marian        ... CTranslate2 translating with opus-mt-fr-en
#   make compare-vision        ... ONNX Runtime, OpenVINO and transformers running a ViT; OPTIONS=--quick
#   make compare-ranks         ... PyTorch's DDP on two ranks; OPTIONS="train.tsv 20 dev.tsv"
#   make compare-speech        ... faster-whisper and whisper.cpp running Whisper; OPTIONS="--ranks gpt2.tiktoken"
#   make prove-tokenizers      our tokenizers against the packages of others, on 100,000 random strings
#   make prove-sharded         attention over 1 to 8 ranks against one process: 200 option sets, bit by bit
#   make prove-minilm          embeddings of all-MiniLM-L6-v2 against sentence-transformers, on 1,000 texts
#   make prove-finetune        all-MiniLM-L6-v2 fine-tuned as a classifier against the same model trained from nothing
#   make prove-marian          translations by opus-mt-fr-en against those of transformers: BLEU of 1,000 sentences
#   make prove-speech          transcripts by Whisper tiny.en against those of OpenAI's package, on 21 recordings
#   make prove-mpi             the weights of one process, for any ranks and threads, 50 kills included; minutes
#   make install     PREFIX=/usr/local DESTDIR=
#   make uninstall   remove what `make install` put there; same DESTDIR
#   make check-neon  build for 64-bit ARM and run the engine's tests in an emulator
#   make format      lay out the C sources with clang-format
#   make setup-dev   install the git hook that checks commit messages
#   make clean
#
# Missing Debian packages are installed, on a terminal after a question; YES=1 answers it.
# CFLAGS, LDFLAGS and CMAKE_FLAGS (such as -DBUILD_SHARED_LIBS=OFF) are kept in the build directory
# until others are given. -jN or JOBS=N sets the number of processes; without, one per CPU.

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
JOBS    ?= $(or $(patsubst -j%,%,$(filter -j%,$(MAKEFLAGS))),$(shell nproc))
YES     ?=
export YES

flags = $(if $(CPPFLAGS)$(CFLAGS),-DCMAKE_C_FLAGS="$(strip $(CPPFLAGS) $(CFLAGS))") \
        $(if $(LDFLAGS),-DCMAKE_EXE_LINKER_FLAGS="$(LDFLAGS)" -DCMAKE_SHARED_LINKER_FLAGS="$(LDFLAGS)")

all: build

setup:
	@sh tools/setup.sh $(if $(filter test tests,$(MAKECMDGOALS)),test)

python:
	@sh tools/setup.sh python
	@sh tools/python.sh build-python $(JOBS) $(PACKAGES)

# of python/examples, with their results
notebooks: override PACKAGES += nbclient ipykernel matplotlib
notebooks: python
	@build-python/venv/bin/python tools/notebooks.py build-python/notebooks

# With tests as soon as there is what they need.
configure: setup
	@tests=OFF; if pkg-config --exists cmocka; then tests=ON; fi; \
	log=$$(cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX="$(PREFIX)" -DMH_BUILD_TESTS=$$tests \
	    $(flags) $(CMAKE_FLAGS) 2>&1) || { echo "$$log" >&2; exit 1; }

build: configure
	@sh tools/build.sh $(BUILD) $(JOBS) products

tests: configure
	@sh tools/build.sh $(BUILD) $(JOBS) all

mpi:
	@sh tools/setup.sh mpi
	@$(MAKE) --no-print-directory build CMAKE_FLAGS="$(CMAKE_FLAGS) -DMH_BUILD_MPI=ON"
	@sh tools/build.sh $(BUILD) $(JOBS) example_17_long_attention

media:
	@sh tools/setup.sh media
	@$(MAKE) --no-print-directory build CMAKE_FLAGS="$(CMAKE_FLAGS) -DMH_BUILD_MEDIA=ON"

demo: build
	@sh tools/demo.sh $(BUILD)

test: tests
	@sh tools/run_tests.sh $(BUILD) $(JOBS)

bench: build
	@$(BUILD)/multihead bench

# makes bench/venv the first time; --help lists the options
compare: build
	@sh bench/compare.sh --library $(BUILD)/libmultihead.so --out $(BUILD) $(OPTIONS)

compare-training compare-translating: build
	@sh tools/build.sh $(BUILD) $(JOBS) turns
	@sh bench/compare.sh $(@:compare-%=%) --build $(BUILD) $(OPTIONS)

compare-lm: build
	@sh bench/compare.sh lm --build $(BUILD) $(OPTIONS)

compare-ranks: mpi
	@sh bench/compare.sh ranks $(BUILD) $(OPTIONS)

compare-models: build
	@model=$$(python3 tools/fetch_models.py minilm) && \
	    sh bench/compare.sh models --build $(BUILD) --model "$$model" $(OPTIONS)

compare-generation: build
	@model=$$(python3 tools/fetch_models.py smollm2) && \
	    sh bench/compare.sh generation --build $(BUILD) --model "$$model"/*.gguf $(OPTIONS)

compare-marian: build
	@sh tools/build.sh $(BUILD) $(JOBS) turns
	@model=$$(python3 tools/fetch_models.py opus-mt-fr-en) && \
	    sh bench/compare.sh marian --build $(BUILD) --model "$$model" $(OPTIONS)

compare-python: build
	@sh tools/build.sh $(BUILD) $(JOBS) turns
	@sh tools/setup.sh python
	@sh bench/compare.sh python --build $(BUILD) $(OPTIONS)

compare-vision: build
	@sh bench/compare.sh vision --build $(BUILD) $(OPTIONS)

compare-speech: build
	@model=$$(python3 tools/fetch_models.py whisper-tiny.en) && \
	    sh bench/compare.sh speech --build $(BUILD) --model "$$model" $(OPTIONS)

prove-tokenizers: tests
	@MH_PEER_STRINGS=100000 sh tests/peers/run.sh $(BUILD)

prove-sharded: tests
	@sh tools/prove_sharded.sh $(BUILD)

prove-minilm: build
	@sh tests/peers/run_minilm.sh $(BUILD)

prove-finetune: build
	@model=$$(python3 tools/fetch_models.py minilm) && python3 tools/prove_finetune.py $(BUILD)/multihead "$$model"

prove-marian: build
	@sh tests/peers/run_marian.sh $(BUILD)

prove-speech: tests
	@sh tools/setup.sh speech
	@sh tests/peers/run_speech.sh $(BUILD) $(OPTIONS)

prove-mpi: mpi
	@sh tests/mpi/run.sh $(BUILD) long
	@sh tests/mpi/netns.sh $(BUILD)

# Root's installation on this machine is made known to the dynamic linker, which looks into its cache
# for what is in /usr/local/lib.
install: build
	@log=$$(DESTDIR="$(DESTDIR)" cmake --install $(BUILD) 2>&1) || { echo "$$log" >&2; exit 1; }
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || PATH=$$PATH:/usr/sbin:/sbin ldconfig 2>/dev/null || true
	@echo "installed in $(DESTDIR)$(PREFIX): bin, include, lib, share/man, share/doc/multihead and the" \
	    "models, share/multihead/models"

uninstall:
	@sh tools/uninstall.sh $(BUILD) "$(DESTDIR)"

check-neon:
	@sh tools/check_neon.sh

format:
	@clang-format -i $$(git ls-files '*.c' '*.h' '*.inc')

setup-dev:
	@hooks=$$(git rev-parse --git-path hooks) && install -D -m 755 tools/hooks/commit-msg "$$hooks/commit-msg"

clean:
	@rm -rf $(BUILD) build-python

.PHONY: all setup configure build tests test demo python notebooks mpi media bench install uninstall \
        compare compare-generation compare-lm compare-marian compare-models compare-python \
        compare-ranks compare-speech compare-training compare-translating compare-vision \
        prove-finetune prove-marian prove-minilm prove-mpi prove-sharded prove-speech \
        prove-tokenizers check-neon format setup-dev clean
