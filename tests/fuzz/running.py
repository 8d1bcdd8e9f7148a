"""Run one case in a process forked from one that has imported everything, and check the result."""

import os
import resource
import shutil
import signal
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT = 60  # seconds; no error may take longer
_MEMORY = 4 * 2**30  # bytes that a case may allocate in addition to the imports


@dataclass
class Case:
    """A command line, and the expected result."""

    name: str
    arguments: list[str]
    stdin: str = "empty"  # or: unfed, zero, closed, or the path of a file
    needles: tuple[str, ...] = ()  # one of them must be in the message
    may_pass: bool = False  # the damage may be in a part that is not read
    outputs: tuple[str, ...] = ()  # prefixes of names that a successful run may write
    exact_outputs: tuple[str, ...] | None = None  # or exact names instead
    call: Callable[[], object] | None = None  # or a call of the Python API instead of a command line


@dataclass
class Outcome:
    case: Case
    code: int
    seconds: float
    stdout: str
    stderr: str
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        end = self.stderr[-1500:]
        arguments = " ".join(
            argument if len(argument) < 200 else argument[:200] + "…" for argument in self.case.arguments
        )
        return f"{self.case.name}: {'; '.join(self.problems)}\n  linda {arguments!r} < {self.case.stdin}\n  {end}"


def run(case: Case, folder: Path) -> Outcome:
    """folder: of the case, with its files in it; it is the working directory of the command."""
    before = snapshot(folder)
    logs = folder.with_name(folder.name + ".logs")
    logs.mkdir()
    begun = time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _be_linda(case, folder, logs)
    code = _wait(child, begun)
    outcome = Outcome(
        case,
        code,
        time.monotonic() - begun,
        (logs / "stdout").read_text(errors="replace"),
        (logs / "stderr").read_text(errors="replace"),
    )
    outcome.problems = list(_problems(outcome, before, snapshot(folder), folder))
    shutil.rmtree(logs)
    return outcome


def _problems(outcome: Outcome, before: dict[str, str], after: dict[str, str], folder: Path) -> Iterator[str]:
    case, stderr = outcome.case, outcome.stderr
    passed = outcome.code == 0 and case.may_pass
    if outcome.code != 2 and not passed:
        yield f"exit code {outcome.code}"
    if "Traceback" in stderr or "panicked" in stderr:
        yield "traceback"
    lines = [line for line in stderr.splitlines() if line.strip()]
    if outcome.code == 2:
        if len(lines) != 1 or not lines[0].startswith("linda: "):
            yield f"{len(lines)} lines on standard error"
        if case.needles and not any(needle in stderr for needle in case.needles):
            yield f"none of {case.needles} is named"
    changed = [name for name, content in before.items() if after.get(name) != content]
    new = [name for name in after if name not in before]
    if passed:
        changed, new = ([name for name in names if not _is_output(name, case)] for names in (changed, new))
    if changed:
        yield f"changed or removed: {changed}"
    if new:
        yield f"left behind: {new[:5]}"


def _is_output(name: str, case: Case) -> bool:
    if case.exact_outputs is not None:
        return Path(name).parts[0] in case.exact_outputs
    return name.startswith(case.outputs)


def snapshot(folder: Path) -> dict[str, str]:
    """All files and folders, with their contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(mode):
            found[name] = f"link {path.readlink()}"
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
            found[name] = f"file {len(content)} {hash(content)}"
        else:
            found[name] = f"mode {stat.S_IFMT(mode)}"
    return found


def _wait(child: int, begun: float) -> int:
    while time.monotonic() - begun < TIMEOUT:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -99  # a hang


def _be_linda(case: Case, folder: Path, logs: Path) -> None:
    """The child: never returns."""
    code = 70
    try:
        os.setpgrp()
        os.chdir(folder)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(logs / name, os.O_WRONLY | os.O_CREAT), number)
        os.dup2(_stdin(case.stdin), 0)
        sys.stdin = None if case.stdin == "closed" else open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.argv = ["linda", *case.arguments]

        from linda.cli import main
        from linda.files import paths

        paths.PIPE_SECONDS = 0.5  # the test is that the wait ends
        if case.call is None:
            main(case.arguments, prog_name="linda")
        else:
            _call(case.call)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _call(compute: Callable[[], object]) -> None:
    """A call of the Python API: its errors are shown as the command line shows them."""
    from linda.errors import LindaError

    warnings.simplefilter("ignore")  # they tell the user of rows that could not be made
    try:
        compute()
    except LindaError as error:
        print(f"linda: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _stdin(kind: str) -> int:
    if kind == "unfed":
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)  # held open by this process, and never written to
        return reader
    return os.open({"empty": "/dev/null", "closed": "/dev/null", "zero": "/dev/zero"}.get(kind, kind), os.O_RDONLY)
