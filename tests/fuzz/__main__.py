"""`python -m tests.fuzz --cases 5000`: many cases, several at a time; failures are listed at the end."""

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[1]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Bad inputs over all commands.")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, help="The number of the first case: --first N --cases 1 is one."
    )
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        world = Path(scratch) / "world"
        _import_everything()
        _make_world(world)
        children = []
        for job in range(given.jobs):
            child = os.fork()
            if child == 0:
                _end(lambda job=job: _work(world, given, job))
            children.append(child)
        failed = sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children)
    print(
        f"{given.cases} cases, seed {given.seed}: {'FAILED' if failed else 'passed'}, {time.monotonic() - begun:.0f} s"
    )
    return int(failed > 0)


def _end(work: Callable[[], object]) -> NoReturn:
    """A forked process must not continue the work of its parent."""
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(bool(code)))


def _make_world(world: Path) -> None:
    """In a separate process, because the threads of torch, once it computes, do not survive a fork."""
    child = os.fork()
    if child == 0:
        from fuzz.world import make_world

        _end(lambda: make_world(world) is None)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise SystemExit("the good files could not be made")


def _import_everything() -> None:
    """Also what commands import late: else every case that gets so far would import it again."""
    import pandas  # noqa: F401
    import pyarrow.compute
    import pyarrow.pandas_compat  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.feature_extraction.text
    import sklearn.linear_model
    import sklearn.metrics
    import sklearn.pipeline  # noqa: F401
    import transformers.generation.candidate_generator  # noqa: F401
    from transformers import (  # noqa: F401
        AutoModelForCausalLM,
        AutoModelForMaskedLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSequenceClassification,
        AutoTokenizer,
        BertForMaskedLM,
        MarianMTModel,
        PreTrainedTokenizerFast,
    )

    from linda.cli import _COMMANDS, main

    for name in _COMMANDS:
        main.get_command(None, name)  # type: ignore[arg-type]
    import linda.augmentation
    import linda.benchmark.grid
    import linda.benchmark.reporting.report
    import linda.classifier
    import linda.engines.int8_engine
    import linda.file_runs.file_pipeline
    import linda.inspection
    import linda.interpolation
    import linda.training
    import linda.training.base  # noqa: F401


def _work(world: Path, given: argparse.Namespace, job: int) -> int:
    from fuzz.cases import Maker
    from fuzz.running import run, snapshot

    good = snapshot(world)
    maker = Maker(world, given.seed)
    failed = 0
    codes: Counter[int] = Counter()
    for number in range(given.first + job, given.first + given.cases, given.jobs):
        folder = world.with_name(f"job{job}") / str(number)
        case = maker.make(number, folder)
        outcome = run(case, folder)
        codes[outcome.code] += 1
        if outcome.problems:
            failed += 1
            print(outcome, flush=True)
        shutil.rmtree(folder)
    if snapshot(world) != good:
        failed += 1
        print("a file that no case was to change has changed", flush=True)
    print(f"job {job}: exit codes {dict(codes)}, {failed} failed", flush=True)
    return int(failed > 0)


sys.exit(main())
