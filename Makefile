# Everything happens in a virtual environment below this folder. Each step
# leaves a stamp in it and is repeated only when what it depends on changes.

PYTHON ?= python3
VENV ?= .venv
# For which wheels are built.
PYTHONS ?= python3.10 python3.11 python3.12 python3.13
# Ninja would start more compilers than there are cores; each takes up to 1 GB.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell getconf _NPROCESSORS_ONLN)

BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
# Folders count too: their time changes when a file in them goes.
SOURCES := CMakeLists.txt pyproject.toml $(shell find cmake dialect lowering passes python tools \
  -name __pycache__ -prune -o \( -type f -o -type d \) -print)
REQUIREMENTS = $(BIN)/python tools/requirements.py

.PHONY: help demo test install dev lint format docs site wheels clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     set everything up and run the main example"
	@echo "make test     set everything up and run all tests"
	@echo "make install  build the package and install it into $(VENV)"
	@echo "make dev      build in place, for PYTHONPATH=python, in seconds after an edit"
	@echo "make lint     check format, style, types and spelling"
	@echo "make format   format all sources"
	@echo "make docs     write docs/reference/, pictures, and tables of docs/checks.md and fuzzing.md"
	@echo "make site     build the documentation as a site in build/site, with all links checked"
	@echo "make wheels   build and try the source distribution and a wheel for each of PYTHONS in dist/"
	@echo "make clean    remove $(VENV), build/ and dist/"

demo: $(STAMPS)/package $(STAMPS)/torch-for-gpu
	$(BIN)/syncopate demo

test: $(STAMPS)/package $(STAMPS)/dev $(STAMPS)/torch $(STAMPS)/oldest-triton
	$(BIN)/python tools/run_tests.py

install: $(STAMPS)/package

dev: $(STAMPS)/build $(STAMPS)/dev
	$(BIN)/python tools/build_in_place.py build/dev

lint: $(STAMPS)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.h' '*.cpp')
	$(BIN)/codespell $$(git ls-files)

format: $(STAMPS)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $$(git ls-files '*.h' '*.cpp')

docs: $(STAMPS)/package
	$(BIN)/python tools/generate_reference.py
	$(BIN)/python tools/generate_checks.py
	$(BIN)/python tools/draw_pictures.py

site: $(STAMPS)/package $(STAMPS)/dev
	$(BIN)/python -m sphinx -W --keep-going -b html docs build/site

wheels: $(STAMPS)/build
	$(REQUIREMENTS) ship | $(BIN)/pip install --quiet --requirement /dev/stdin
	$(BIN)/python tools/build_wheels.py $(PYTHONS)

clean:
	rm -rf $(VENV) build dist

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and \
	  "expects Python 3.10 or later; name one, as in: make demo PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS)
	touch $@

# The build runs without pip's isolation: the prebuilt MLIR, 1.7 GB, is then
# unpacked once, and only what changed is compiled again.
$(STAMPS)/build: pyproject.toml $(STAMPS)/venv
	$(REQUIREMENTS) build | $(BIN)/pip install --requirement /dev/stdin
	touch $@

$(STAMPS)/package: $(SOURCES) $(STAMPS)/build
	$(REQUIREMENTS) runtime | $(BIN)/pip install --quiet --requirement /dev/stdin
	$(BIN)/pip install --no-build-isolation --no-deps --force-reinstall .
	touch $@

$(STAMPS)/dev: pyproject.toml $(STAMPS)/venv
	$(REQUIREMENTS) dev | $(BIN)/pip install --quiet --requirement /dev/stdin
	touch $@

# The tests run with the newest Triton, and once more with this one in front.
$(STAMPS)/oldest-triton: pyproject.toml $(STAMPS)/venv
	rm -rf $(VENV)/oldest-triton
	$(BIN)/pip install --quiet --no-deps --target $(VENV)/oldest-triton \
	  "$$($(REQUIREMENTS) runtime | sed -n 's/^triton>=\([0-9.]*\)$$/triton~=\1.0/p')"
	touch $@

$(STAMPS)/torch: $(STAMPS)/venv tools/install_torch.py
	$(BIN)/python tools/install_torch.py
	touch $@

$(STAMPS)/torch-for-gpu: $(STAMPS)/venv tools/install_torch.py
	$(BIN)/python tools/install_torch.py --only-for-gpu
	touch $@
