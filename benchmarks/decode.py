"""How fast each way to decode is, all of them measured in one run, taking turns.

    python benchmarks/decode.py MODEL SENTENCES --pairs 2000

Ways: one pair at a time through `transformers`' generate (the paper's public code); generate on padded batches of 32
in file order (what a competent user does); each engine of ours through `Interpolator`. All go from texts to texts:
tokenizing, encoding, mixing, decoding. Beside the times: the share of texts identical to those of one pair at a time,
and the matrix-multiply speed of this machine in the same run, with the fraction of it that each way reaches. The clock
on the wall counts: nothing else may run beside it.
"""

from __future__ import annotations

import json
import platform
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from linda import engines
from linda.interpolator import Interpolator
from linda.model import LindaModel
from linda.pairs import draw_pairs
from linda.textio import open_text

Job = tuple[str, str, float]  # a, b, alpha
Way = Callable[[list[Job]], list[str]]

ONE, PADDED = "generate, one pair at a time", "generate, padded batches of 32"


@click.command(help=__doc__.splitlines()[0] if __doc__ else None)
@click.argument("model", type=click.Path(exists=True, file_okay=False))
@click.argument("sentences", type=click.Path(exists=True, dir_okay=False))
@click.option("--pairs", default=2000, show_default=True)
@click.option("--rounds", default=4, show_default=True, help="The pairs are split so often; ways take turns.")
@click.option("--beams", default=4, show_default=True)
@click.option("--threads", default=torch.get_num_threads(), show_default=True)
@click.option("--engine", "names", multiple=True, default=engines.NAMES, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "output", type=click.Path(dir_okay=False), help="Also write the figures to this file.")
def main(
    model: str,
    sentences: str,
    pairs: int,
    rounds: int,
    beams: int,
    threads: int,
    names: tuple[str, ...],
    seed: int,
    output: str | None,
) -> None:
    torch.set_num_threads(threads)
    linda = LindaModel.from_pretrained(model)
    ways: dict[str, Way] = {ONE: generate_in_batches(linda, 1, beams), PADDED: generate_in_batches(linda, 32, beams)}
    for name in names:
        ways[f"{name} engine"] = through_engine(Interpolator(linda, engines.load(name, linda)), beams)

    jobs = list(draw_jobs(Path(sentences), pairs, seed))
    for way in ways.values():
        way(jobs[:2])  # the first call of anything is slow
    seconds = dict.fromkeys(ways, 0.0)
    texts: dict[str, list[str]] = {name: [] for name in ways}
    speeds = []
    for number in range(rounds):
        speeds.append(matmul_gflops())
        order = list(ways)[number % len(ways) :] + list(ways)[: number % len(ways)]
        for name in order:
            start = time.perf_counter()
            texts[name] += ways[name](jobs[number * pairs // rounds : (number + 1) * pairs // rounds])
            seconds[name] += time.perf_counter() - start
    speed = sum(speeds) / len(speeds)
    work = {name: flops_per_pair(way, jobs[: max(32, pairs // rounds)][:256]) for name, way in ways.items()}

    rows = [
        {
            "way": name,
            "pairs_per_second": pairs / seconds[name],
            "times_padded": seconds[PADDED] / seconds[name],
            "times_one": seconds[ONE] / seconds[name],
            "identical": sum(map(str.__eq__, texts[name], texts[ONE])) / pairs,
            "gflop_per_pair": work[name] / 1e9,
            "of_matmul_speed": work[name] * pairs / seconds[name] / 1e9 / speed,
        }
        for name in ways
    ]
    report = {
        "model": model,
        "sentences": Path(sentences).name,
        "pairs": pairs,
        "beams": beams,
        "threads": threads,
        "machine": processor(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "matmul_gflops": speed,
        "ways": rows,
    }
    click.echo(table(report))
    if output:
        Path(output).write_text(json.dumps(report, indent=2) + "\n")


def processor() -> str:
    names = Path("/proc/cpuinfo")  # Linux tells the model there only
    lines = names.read_text().splitlines() if names.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def draw_jobs(path: Path, count: int, seed: int) -> Iterator[Job]:
    with open_text(path) as lines:
        sentences = [line.strip() for line, _ in zip(lines, range(10 * count), strict=False) if line.strip()]
    ratios = random.Random(seed)
    for a, b in draw_pairs(sentences, count, seed):
        yield a, b, ratios.random()


def generate_in_batches(linda: LindaModel, size: int, beams: int) -> Way:
    @torch.inference_mode()
    def way(jobs: list[Job]) -> list[str]:
        texts = []
        for start in range(0, len(jobs), size):
            a, b, alpha = (list(column) for column in zip(*jobs[start : start + size], strict=True))
            states, mask = linda.mix_texts(a, b, alpha)
            texts += linda.detokenize(linda.generate(states, mask, num_beams=beams))
        return texts

    return way


def through_engine(interpolator: Interpolator, beams: int) -> Way:
    def way(jobs: list[Job]) -> list[str]:
        a, b, alpha = (list(column) for column in zip(*jobs, strict=True))
        return interpolator.mix(a, b, alpha, raw=True, beams=beams)

    return way


def matmul_gflops(size: int = 1024, repeats: int = 20) -> float:
    """32-bit, square, the best of some: what the processor gives at its own game."""
    matrix = torch.randn(size, size)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        matrix @ matrix
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


def flops_per_pair(way: Way, jobs: list[Job]) -> float:
    """Counted, not timed: all multiplications and additions of matrix products, padding and dead beams included."""
    with FlopCounterMode(display=False) as counter:
        way(jobs)
    return counter.get_total_flops() / len(jobs)


def table(report: dict) -> str:
    head = f"{'way':34}{'pairs/s':>9}{'× padded':>10}{'× one':>8}{'identical':>11}{'GFLOP/pair':>12}{'of matmul':>11}"
    lines = [
        f"{row['way']:34}{row['pairs_per_second']:9.2f}{row['times_padded']:10.2f}{row['times_one']:8.2f}"
        f"{row['identical']:11.1%}{row['gflop_per_pair']:12.1f}{row['of_matmul_speed']:11.0%}"
        for row in report["ways"]
    ]
    foot = (
        f"{report['pairs']} pairs of {report['sentences']}, beam {report['beams']}, α uniform; {report['machine']}, "
        f"{report['threads']} threads, {report['matmul_gflops']:.0f} GFLOP/s in a matrix product; "
        f"torch {report['torch']}, transformers {report['transformers']}"
    )
    return "\n".join([head, *lines, "", foot])


if __name__ == "__main__":
    main()
