# Each command does all its own set-up: nothing but Python, make and git is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PROFILE ?= laptop
WORKERS ?= 2
# Each worker starts with half of the tests, in the order of tests/conftest.py, and takes over tests when it is done.
PARALLEL := --numprocesses $(WORKERS) --dist worksteal
SIZE ?= small

.PHONY: demo test lint docs figures examples embedded-model reproduce studies clean

demo: $(STAMP)  ## install, and write the path between two sentences with the embedded model
	$(BIN)/linda interpolate "The museum is open all day in summer." "The old library is closed on Sunday." --ladder 5

test: $(STAMP)  ## install, then check style, types and behaviour
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Two tests at a time, on one thread each, and the type checker beside them.
	$(BIN)/mypy & types=$$!; OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) $(TESTS) && wait $$types

lint: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

docs: $(STAMP)  ## build the documentation site into build/site; broken links are errors
	@# Without --quiet, which hides the warnings that --strict counts: the check would always pass.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo build/site/index.html

figures: $(STAMP)  ## draw the figures of the documentation from committed results and the embedded model
	$(BIN)/python scripts/figures.py

examples: $(STAMP)  ## run the examples of the documentation, and write what they print under them
	$(BIN)/python scripts/examples.py

embedded-model: $(STAMP)  ## train the embedded model again (about a day): BASE=opus-mt-fr-en LM=smollm2-135m DATA=… WORK=…
	$(BIN)/python scripts/embedded_model.py --base "$(BASE)" --lm "$(LM)" --data "$(DATA)" --work "$(WORK)"

reproduce: $(STAMP)  ## the paper's five tables, resumable: DATA=folder of tasks WORK=… [PROFILE=laptop|paper] [OPTIONS=…]
	@test -n "$(DATA)" -a -n "$(WORK)" || { echo "make reproduce needs the folder of tasks (docs/reference/bench.md, Tasks) and one \
	for the results: make reproduce DATA=tasks WORK=results [PROFILE=paper]" >&2; exit 2; }
	$(BIN)/python scripts/reproduce.py --data "$(DATA)" --work "$(WORK)" --profile "$(PROFILE)" -- $(OPTIONS)

studies: $(STAMP)  ## a study of where augmentation pays: STUDY=imbalance|calibration|noise|students|teacher|unlabelled|shift DATA=… WORK=… [SIZE=… TRIGRAMS=…]
	@test -n "$(STUDY)" -a -n "$(DATA)" -a -n "$(WORK)" || { echo "make studies needs a study (docs/reference/bench.md, Studies), the \
	folder of tasks and one for the results: make studies STUDY=imbalance DATA=tasks WORK=results [SIZE=small|medium|full]" >&2; exit 2; }
	$(BIN)/python scripts/studies.py --study "$(STUDY)" --data "$(DATA)" --work "$(WORK)" --size "$(SIZE)" \
		$(if $(TRIGRAMS),--trigrams "$(TRIGRAMS)") -- $(OPTIONS)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# Without compiling all modules of all packages, which takes a minute: those that are imported are compiled then.
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info
