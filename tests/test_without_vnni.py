"""On a machine with VNNI, test the other products in a process that cannot use it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from linda.engines.linear import IntegerProduct

VARIABLES = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}


@pytest.mark.skipif(not IntegerProduct.is_exact(), reason="here every test runs without VNNI")
@pytest.mark.parametrize("selection", [["test_int8_engine.py"], ["test_docs.py", "-k", "not torch"]], ids=str)
def test_passes_without_vnni(selection: list[str]) -> None:
    tests = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tests / selection[0]), *selection[1:]]
    done = subprocess.run(
        command, cwd=tests.parent, env=os.environ | VARIABLES, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
