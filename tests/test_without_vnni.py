"""On a machine with VNNI, test the other products in a process that cannot use it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from linda.engines.linear import IntegerProduct

VARIABLES = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}


@pytest.mark.skipif(not IntegerProduct.is_exact(), reason="here every test runs without VNNI")
def test_passes_without_vnni() -> None:
    """Of the examples of the documentation, those on the torch engine do not depend on it."""
    tests = Path(__file__).parent
    files = [
        str(tests / name)
        for name in ("test_int8_engine.py", "test_forced_decoding.py", "test_embedded.py", "test_docs.py")
    ]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files, "-k", "not .md-torch]"]
    done = subprocess.run(
        command, cwd=tests.parent, env=os.environ | VARIABLES, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
