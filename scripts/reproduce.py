"""Computes the paper's tables, one `linda bench --paper …` each, after an estimate of the hours.

    python scripts/reproduce.py --data tasks --work results [--profile paper] [-- options of linda bench]

Each table is a folder of WORK. The same command again computes only what is missing.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from linda.benchmark.reporting.paper import EXPERIMENTS
from linda.cli.bench import command
from linda.errors import LindaError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of tasks")
    parser.add_argument("--work", type=Path, required=True, help="folder of the results")
    parser.add_argument("--profile", choices=["laptop", "paper"], default="laptop", help="as in linda bench")
    parser.add_argument("options", nargs="*", help="options of linda bench, after --")
    given = parser.parse_args(arguments)
    shared = ["--profile", given.profile, "--data", str(given.data), *given.options]
    tables = {table: ["--paper", table, "--output", str(given.work / table), *shared] for table in EXPERIMENTS}
    try:
        announce(tables)
    except LindaError as error:
        print(f"reproduce: {error} (docs/reference/bench.md, Tasks, says which files are needed)", file=sys.stderr)
        return 2
    for options in tables.values():
        done = subprocess.run([sys.executable, "-m", "linda", "bench", *options], check=False)
        if done.returncode:
            return done.returncode
    return 0


def announce(tables: dict[str, list[str]]) -> None:
    """Print how long each table will take. If one of them cannot be computed, raise a LindaError."""
    total = 0.0
    for table, options in tables.items():
        print(f"{table}:", flush=True)
        total += command.main([*options, "--dry-run"], prog_name="linda bench", standalone_mode=False)
    hours = f"{total:,.0f}" if total >= 10 else f"{total:,.1f}".removesuffix(".0")
    print(
        f"All {len(tables)} tables: about {hours} hours on a CPU. Stop at any time; "
        "run the same command again to continue."
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
