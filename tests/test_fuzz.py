"""Bad inputs over all commands: one line that names the error, exit code 2, and no file changed.

To run more of them: `python -m tests.fuzz --cases 5000 --seed 7`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = 560  # every kind of mistake equally often


@pytest.mark.skipif(not hasattr(os, "fork"), reason="every case is a process forked from one that has all imports")
def test_every_bad_input_is_told_in_one_line_and_leaves_every_file_alone() -> None:
    jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    # A new process: this one has run torch, whose threads would not survive a fork.
    command = [sys.executable, "-m", "tests.fuzz", "--cases", str(CASES), "--seed", "0", "--jobs", str(jobs)]
    run = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2000:]
    assert f"{CASES} cases, seed 0: passed" in run.stdout
