# make demo, make test: install what is missing, build, run. Both are incremental.
#   PYTHON=...   use this Python, which has torch, and install nothing
# make test-torch VERSION=2.14.1: the same with another torch, in an environment and a build folder of its own.
SHELL := /bin/bash
JOBS ?= 2

ifdef PYTHON
given_python := $(PYTHON)
setup:
else
PYTHON := .venv/bin/python
setup:
	@scripts/setup.sh
endif

# The configuration is redone only when the interpreter or the build files change (Ninja sees to the latter).
define configure
	@test -f $(1)/build.ninja || cmake -G Ninja -S $(if $(3),$(3),.) -B $(1) $(2)
endef
python_path = $(if $(findstring /,$(PYTHON)),$(abspath $(PYTHON)),$(shell command -v $(PYTHON)))
python_flag = -DPython_EXECUTABLE=$(python_path)

.PHONY: setup build extension demo test test-again test-cpp test-example test-python test-sanitize test-sanitize-extension test-clang test-torch test-types test-wheel test-all test-upstream reasons higher-order-page api-page docs bench lint tidy format clean

build: setup
	$(call configure,build,$(python_flag))
	@cmake --build build -j $(JOBS)

# What a user needs, without tests and benchmarks.
extension: setup
	$(call configure,build,$(python_flag))
	@echo "building: about 6 minutes on two cores the first time"
	@cmake --build build -j $(JOBS) --target saker_python

demo: extension
	@PYTHONPATH=python $(PYTHON) examples/demo.py

test: build test-cpp test-example test-python

# What failed in the last run, once more: all of C++, and of Python what failed, or everything if nothing did.
test-again: build test-cpp test-example
	@PYTHONPATH=python $(PYTHON) -m pytest -q -n $(JOBS) --last-failed tests/python

test-cpp: build
	@build/tests/saker-tests --gtest_brief=1
	@test ! -e build/tests/cpp_codegen/saker-codegen-tests || build/tests/cpp_codegen/saker-codegen-tests --gtest_brief=1
	@build/tests/cpp_torch/saker-torch-tests --gtest_brief=1

test-python: build
	@PYTHONPATH=python $(PYTHON) -m pytest -q -n $(JOBS) tests/python

# The C++ example, as a user builds it: against an installed Saker, found by CMake.
torch_prefix = $(shell $(PYTHON) -c 'import torch; print(torch.utils.cmake_prefix_path)')
test-example: build
	@cmake --install build --prefix build/installed >/dev/null
	$(call configure,build/example,"-DCMAKE_PREFIX_PATH=$(CURDIR)/build/installed;$(torch_prefix)",examples/cpp)
	@cmake --build build/example -j $(JOBS)
	@build/example/train
	@build/example/compile
	@build/installed/bin/saker-opt --help >/dev/null

# The torch-free core under AddressSanitizer and UndefinedBehaviorSanitizer, the fuzzers with many more iterations.
test-sanitize: setup
	$(call configure,build-sanitize,-DSAKER_TORCH=OFF -DSAKER_SANITIZE=address$(comma)undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo)
	@cmake --build build-sanitize -j $(JOBS)
	@SAKER_FUZZ_ITERATIONS=$${SAKER_FUZZ_ITERATIONS:-20} build-sanitize/tests/saker-tests --gtest_brief=1
	@SAKER_OPT=build-sanitize/saker-opt $(PYTHON) -m pytest -q tests/python/test_text.py

# The Python tests on an extension under AddressSanitizer, which a Python without it has to be given first. Frames must
# be where the stack is: the watched loop looks how much of that is left.
asan = build-asan/python/saker
test-sanitize-extension: setup
	$(call configure,build-asan,-DSAKER_SANITIZE=address -DSAKER_WERROR=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS=-DNDEBUG -DSAKER_EXTENSION_DIR=$(asan) $(python_flag))
	@cmake --build build-asan -j $(JOBS) --target saker_python saker-opt saker-kernel
	@cp python/saker/*.py python/saker/*.pyi python/saker/py.typed $(asan)
	@LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=protect_shadow_gap=0,detect_leaks=0,detect_stack_use_after_return=0,verify_asan_link_order=0 \
	  SAKER_OPT=build-asan/saker-opt PYTHONPATH=build-asan/python $(PYTHON) -m pytest -q -n $(JOBS) tests/python

# Everything once more with clang, warnings as errors.
test-clang:
	@scripts/setup.sh clang-19
	$(call configure,build-clang,-DCMAKE_CXX_COMPILER=clang++-19 -DSAKER_EXTENSION_DIR=build-clang/python/saker $(python_flag))
	@cmake --build build-clang -j $(JOBS)
	@build-clang/tests/saker-tests --gtest_brief=1
	@build-clang/tests/cpp_torch/saker-torch-tests --gtest_brief=1

# Build and tests with another torch (docs/torch-versions.md), from the headers to the Python tests. The C++ example is
# left out: it finds torch by its own CMake files, which want a CUDA toolkit where torch was built with CUDA.
version_build = build-torch-$(VERSION)
version_python = $(if $(given_python),$(python_path),$(abspath .venv-$(VERSION)/bin/python))
version_package = $(version_build)/python/saker
test-torch:
	@test -n "$(VERSION)" || { echo "make test-torch VERSION=2.14.1"; exit 2; }
	@$(if $(given_python),true,SAKER_TORCH=$(VERSION) scripts/setup.sh)
	$(call configure,$(version_build),-DSAKER_EXTENSION_DIR=$(version_package) -DPython_EXECUTABLE=$(version_python))
	@cmake --build $(version_build) -j $(JOBS)
	@cp python/saker/*.py python/saker/*.pyi python/saker/py.typed $(version_package)
	@$(version_build)/tests/saker-tests --gtest_brief=1
	@$(version_build)/tests/cpp_torch/saker-torch-tests --gtest_brief=1
	@SAKER_OPT=$(version_build)/saker-opt PYTHONPATH=$(version_build)/python $(version_python) -m pytest -q -n $(JOBS) $(or $(TESTS),tests/python)
	@echo "the C++ example was not built: see the Makefile"

# Type checkers on programs that use Saker, in an environment of their own: 300 MB.
test-types: build
	@test -x build/types/bin/basedpyright || { $(PYTHON) -m venv build/types && build/types/bin/pip install --quiet --disable-pip-version-check mypy==2.4.1 basedpyright==1.40.2; }
	@SAKER_TYPE_CHECKERS=$(abspath build/types/bin) PYTHONPATH=python $(PYTHON) -m pytest -q tests/python/test_typing.py

# A wheel as pip builds it, in an environment of its own. SAKER_OTHER_PYTHONS names Pythons whose torch must be refused.
test-wheel: setup
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) PYTHON=$(PYTHON) scripts/wheel_smoke.sh

# What takes long: the whole OpInfo sweep and the whole matrix, sanitizers, the second compiler, the wheel.
test-all: test test-types test-sanitize test-sanitize-extension test-clang test-wheel
	@SAKER_SWEEP=full PYTHONPATH=python $(PYTHON) -m pytest -q -n $(JOBS) tests/python/test_opinfo.py tests/python/test_aot_opinfo.py tests/python/test_aot_matrix.py

# PyTorch's own tests of its compiler, against Saker. FILES names some of them, such as functorch/test_aotdispatch.py.
test-upstream: build
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check pytest-timeout parameterized
	@tests/upstream/fetch.sh build/upstream
	@$(PYTHON) tests/upstream/run.py --jobs $(JOBS) build/upstream $(FILES)

# docs/reasons.md is made of the table of reasons for which calls run eagerly.
reasons: build
	@PYTHONPATH=python $(PYTHON) scripts/reasons_page.py > docs/reasons.md

# The table of docs/higher-order-ops.md is made of the programs that test it.
higher-order-page: build
	@PYTHONPATH=python $(PYTHON) scripts/higher_order_page.py

# docs/api.md is made of the docstrings of the package.
api-page: extension
	@PYTHONPATH=python $(PYTHON) scripts/api_page.py > build/api.md && mv build/api.md docs/api.md

# The pages as a site, in build-docs/site. It needs the network once, to install MkDocs; what is built needs none.
docs: setup
	@scripts/docs.sh $(PYTHON)

bench: build
	@build/bench/graph_scale
	@build/bench/symbolic_questions
	@build/bench/functionalize_scale
	@build/bench/partition_scale
	@build/bench/torch/compile_step
	@build/bench/codegen_speed
	@PYTHONPATH=python $(PYTHON) bench/bench_infer.py
	@PYTHONPATH=python $(PYTHON) bench/bench_capture.py
	@PYTHONPATH=python $(PYTHON) bench/bench_aot.py
	@PYTHONPATH=python $(PYTHON) bench/bench_linear.py
	@PYTHONPATH=python $(PYTHON) bench/bench_aot_gpt2.py
	@PYTHONPATH=python $(PYTHON) bench/bench_compile.py
	@PYTHONPATH=python $(PYTHON) bench/bench_memory.py
	@PYTHONPATH=python $(PYTHON) bench/bench_memory_bound.py
	@PYTHONPATH=python $(PYTHON) bench/bench_native.py
	@PYTHONPATH=python $(PYTHON) bench/bench_changing_sizes.py
	@PYTHONPATH=python $(PYTHON) bench/bench_control_flow.py

lint: build
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check clang-format==19.1.7 clang-tidy==19.1.0.1 ruff==0.17.4
	@.venv/bin/ruff check . && .venv/bin/ruff format --check .
	@git ls-files '*.cpp' '*.h' | xargs .venv/bin/clang-format --dry-run -Werror
	@$(MAKE) --no-print-directory -j $(JOBS) tidy

# clang-tidy on the torch-free core; a file that passed is not looked at again until it or a header changes.
tidy_sources := $(wildcard src/support/*.cpp src/symbolic/*.cpp src/ir/*.cpp src/ops/*.cpp src/passes/*.cpp src/autograd/*.cpp src/kernel/*.cpp src/codegen/*.cpp) tools/saker_opt.cpp
tidy_headers := $(wildcard src/support/*.h src/symbolic/*.h src/ir/*.h src/ops/*.h src/passes/*.h src/autograd/*.h src/kernel/*.h src/codegen/*.h)
tidy: $(tidy_sources:%=build/tidy/%.ok)
build/tidy/%.ok: % $(tidy_headers) .clang-tidy
	@.venv/bin/clang-tidy -p build --quiet $< && mkdir -p $(@D) && touch $@

format:
	@.venv/bin/ruff format .
	@git ls-files '*.cpp' '*.h' | xargs .venv/bin/clang-format -i

clean:
	rm -rf build build-sanitize build-clang build-torch-* build-wheel build-docs python/saker/*.so

comma := ,
