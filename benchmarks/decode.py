"""Speed and output of several ways to decode, measured alternately in one run.

    python benchmarks/decode.py MODEL SENTENCES --pairs 2000 --language-model FOLDER --output DIR
    python benchmarks/decode.py MODEL SENTENCES --flat 1000,5000,20000,50000 --engine int8 --output DIR

Ways: one pair at a time through `generate` of `transformers` (the paper's public code; on the first pairs only, because
it is slow); generate on padded batches of 32 in file order (what a competent user does); each engine through
`Interpolator`. All go from texts to texts: tokenizing, encoding, mixing, decoding. Also reported: the share of texts
identical to those of generate on padded batches, unigram precisions by ratio, perplexity, and the speed of matrix
products of this machine in the same run, with the fraction of it that each way reaches. With several threads, elapsed
time is measured, and nothing else may run; with one (--threads 1), processor time.

A processor without VNNI is emulated by the environment: ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2.

With --flat: seconds per row and peak memory for several numbers of rows, each in a separate process.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from linda import engines
from linda.engines.decoding import generate
from linda.engines.linear import IntegerProduct, Linear, find_product
from linda.engines.quantized import quantize
from linda.interpolation import Interpolator
from linda.measures import WordOrigins
from linda.measures.pairs import draw_pairs
from linda.model import LindaModel
from linda.training.corpus import read_sentences

Job = tuple[str, str, float]  # a, b, alpha
Way = Callable[[list[Job]], list[str]]

ONE, PADDED = "generate, one pair at a time", "generate, padded batches of 32"
PARTS = 5  # of the pairs, in order of their ratios


@click.command(help=__doc__.splitlines()[0] if __doc__ else None)
@click.argument("model", type=click.Path(exists=True, file_okay=False))
@click.argument("sentences", type=click.Path(exists=True, dir_okay=False))
@click.option("--pairs", default=2000, show_default=True)
@click.option("--one-pairs", default=200, show_default=True, help="Number of pairs for one pair at a time.")
@click.option("--rounds", default=4, show_default=True, help="Parts of the pairs, between which ways alternate.")
@click.option("--beams", default=4, show_default=True)
@click.option("--threads", default=torch.get_num_threads(), show_default=True)
@click.option("--engine", "names", multiple=True, default=engines.NAMES, show_default=True)
@click.option("--language-model", help="Folder of a causal language model, for perplexity.")
@click.option("--flat", help="Numbers of rows, comma-separated: measure cost per row and memory of one engine.")
@click.option("--rows", type=int, hidden=True, help="One measurement of --flat.")
@click.option("--seed", default=0, show_default=True)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the report and figures.")
def main(model: str, sentences: str, threads: int, flat: str | None, rows: int | None, **options: Any) -> None:
    torch.set_num_threads(threads)
    name, output = options["names"][0], options.pop("output")
    if rows is not None:
        click.echo(json.dumps(measure_rows(model, sentences, rows, name, options["beams"], options["seed"])))
        return
    machine = {"model": Path(model).name, "sentences": Path(sentences).name, "threads": threads, **about_machine()}
    if flat is not None:
        counts = [int(count) for count in flat.split(",")]
        fixed = ["--engine", name, "--beams", str(options["beams"]), "--threads", str(threads)]
        runs = [in_own_process([model, sentences, *fixed, "--rows", str(count)]) for count in tqdm(counts, unit="run")]
        report = {**machine, "engine": name, "beams": options["beams"], "runs": runs}
        publish(report, flat_table(report), "flat", "flat", output)
        return
    language_model = options.pop("language_model")
    jobs = draw_jobs(sentences, options.pop("pairs"), options.pop("seed"))
    linda, beams = LindaModel.from_pretrained(model), options["beams"]
    ways = {ONE: generate_in_batches(linda, 1, beams), PADDED: generate_in_batches(linda, 32, beams)}
    for name in options.pop("names"):
        ways[f"{name} engine"] = through_engine(Interpolator.of(linda, name), beams)
    figures, texts = compare(ways, jobs, **options)
    report = {**machine, **figures}
    publish(report, comparison_tables(report), "report", "figures", output)  # kept if the perplexity run is interrupted
    if language_model is not None:
        add_perplexity(report, texts, language_model)
        publish(report, comparison_tables(report), "report", "figures", output)


def compare(
    ways: dict[str, Way], jobs: list[Job], one_pairs: int, rounds: int, beams: int
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Measure all ways, and return their figures and texts.

    Args:
        ways: Ways by name. All of them decode all jobs, except `ONE`.
        jobs: Pairs and ratios.
        one_pairs: Number of jobs for `ONE`.
        rounds: Number of parts of the jobs, between which the ways alternate.
        beams: Beam width, for the report.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for way in ways.values():
        way(jobs[:2])  # warm up

    seconds, texts = dict.fromkeys(ways, 0.0), {name: list[str]() for name in ways}
    matmul: list[dict[str, float]] = []
    for number in tqdm(range(rounds), unit="round"):
        matmul.append({"32": matmul_gops(), "8": matmul_gops_8_bits()})
        turn = number % len(ways)
        for name in tqdm([*list(ways)[turn:], *list(ways)[:turn]], unit="way", leave=False):
            count = one_pairs if name == ONE else len(jobs)
            part = jobs[number * count // rounds : (number + 1) * count // rounds]
            start = clock()
            texts[name] += ways[name](part)
            seconds[name] += clock() - start
    speeds = {bits: sum(found[bits] for found in matmul) / rounds for bits in matmul[0]}

    # One pair at a time gives the same texts as padded batches, so they are not measured again.
    measured = {name: texts[name] for name in ways if name != ONE}
    figures = {
        "pairs": len(jobs),
        "one_pairs": one_pairs,
        "beams": beams,
        "matmul_gops": speeds,
        "ways": [
            {
                "way": name,
                "pairs": len(texts[name]),
                "pairs_per_second": len(texts[name]) / seconds[name],
                "gop_per_pair": (work := gop_per_pair(way, jobs[: min(256, len(texts[name]))])),
                "of_matmul_speed": work * len(texts[name]) / seconds[name] / speeds["8" if "int8" in name else "32"],
                "identical": sum(map(str.__eq__, texts[name], texts[PADDED])) / len(texts[name]),
            }
            for name, way in ways.items()
        ],
        "quality": quality(jobs, measured),
    }
    return figures, measured


def about_machine() -> dict[str, str]:
    import transformers

    cpuinfo = Path("/proc/cpuinfo")  # the only place of the model name on Linux
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor() or platform.machine()
    if not IntegerProduct.is_exact():
        processor += f" without VNNI ({emulated})" if (emulated := emulated_by()) else " without VNNI"
    return {"machine": processor, "torch": torch.__version__, "transformers": transformers.__version__}


def emulated_by() -> str:
    """Return the environment variables that restrict the processor's features, if any."""
    names = ("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
    return " ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)


def draw_jobs(sentences: str, count: int, seed: int) -> list[Job]:
    ratios = random.Random(seed)
    drawn = draw_pairs(itertools.islice(read_sentences(sentences), 10 * count), count, seed)
    return [(a, b, ratios.random()) for a, b in drawn]


def generate_in_batches(linda: LindaModel, size: int, beams: int) -> Way:
    @torch.inference_mode()
    def way(jobs: list[Job]) -> list[str]:
        texts = []
        for start in range(0, len(jobs), size):
            a, b, alpha = (list(column) for column in zip(*jobs[start : start + size], strict=True))
            states, mask = linda.mix_texts(a, b, alpha)
            texts += linda.detokenize(generate(linda, states, mask, num_beams=beams))
        return texts

    return way


def through_engine(interpolator: Interpolator, beams: int) -> Way:
    def way(jobs: list[Job]) -> list[str]:
        a, b, alpha = (list(column) for column in zip(*jobs, strict=True))
        return interpolator.mix(a, b, alpha, raw=True, beams=beams)

    return way


def matmul_gops(size: int = 1024) -> float:
    """Measure the peak speed of 32-bit square matrix products, in 10⁹ operations per second."""
    matrix = torch.randn(size, size)
    return 2 * size**3 / best_seconds(lambda: matrix @ matrix) / 1e9


def matmul_gops_8_bits(size: int = 1024) -> float:
    """Measure the same for the 8-bit product that the int8 engine uses here."""
    matrix = torch.randn(size, size)
    layer, rows = Linear.of(matrix, torch.zeros(size), find_product()), quantize(matrix)
    return 2 * size**3 / best_seconds(lambda: layer(rows)) / 1e9


def best_seconds(compute: Callable[[], object], repeats: int = 20) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        compute()
        best = min(best, time.perf_counter() - start)
    return best


def gop_per_pair(way: Way, jobs: list[Job]) -> float:
    """Count the multiplications and additions of all matrix products, including padding and unused beams."""

    def of_8_bit_product(rows: torch.Size, *_: Any, out_shape: torch.Size, **__: Any) -> int:
        return 2 * rows.numel() * out_shape[-1]

    counted = {torch.ops.onednn.qlinear_pointwise: of_8_bit_product}
    with FlopCounterMode(display=False, custom_mapping=counted) as counter:
        way(jobs)
    return counter.get_total_flops() / len(jobs) / 1e9


def quality(jobs: list[Job], texts: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Measure unigram precision against a and b in each fifth of the ratios, and words of neither text, by way."""
    by_ratio = sorted(range(len(jobs)), key=lambda i: jobs[i][2])
    parts = [by_ratio[number * len(jobs) // PARTS : (number + 1) * len(jobs) // PARTS] for number in range(PARTS)]
    found: dict[str, dict[str, Any]] = {}
    for name, written in texts.items():
        origins = [WordOrigins.of(text, a, b) for text, (a, b, _) in zip(written, jobs, strict=True)]
        found[name] = {
            "precision_a": [sum(origins[i].in_a for i in part) / len(part) for part in parts],
            "precision_b": [sum(origins[i].in_b for i in part) / len(part) for part in parts],
            "neither": sum(origin.neither for origin in origins) / len(origins),
            "perplexity": None,
        }
    return found


def add_perplexity(report: dict[str, Any], texts: dict[str, list[str]], language_model: str) -> None:
    from linda.measures.fluency import LanguageModel

    reader = LanguageModel.load(language_model)
    for name, written in texts.items():
        report["quality"][name]["perplexity"] = reader.perplexity(written, progress=True).per_token


def measure_rows(model: str, sentences: str, rows: int, engine: str, beams: int, seed: int) -> dict[str, float]:
    """Decode `rows` rows as a stream, in this process."""
    interpolator = Interpolator.from_pretrained(model, engine=engine)
    jobs = draw_jobs(sentences, rows, seed)
    stream = ((a, b, alpha, 0) for a, b, alpha in jobs)
    start = time.perf_counter()
    for _ in tqdm(interpolator.mix_stream(stream, raw=True, beams=beams), total=rows, unit="text", leave=False):
        pass
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": rows, "ms_per_row": 1000 * seconds / rows, "peak_mb": peak}


def in_own_process(arguments: list[str]) -> dict[str, float]:
    command = [sys.executable, __file__, *arguments]
    found: dict[str, float] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return found


def publish(report: dict[str, Any], text: str, page: str, figures: str, output: Path | None) -> None:
    """Print the tables, and write them to the folder with the data."""
    click.echo(text)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / f"{page}.md").write_text(text + "\n", encoding="utf-8")
        (output / f"{figures}.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def comparison_tables(report: dict[str, Any]) -> str:
    speed = {row["way"]: row["pairs_per_second"] for row in report["ways"]}
    one = speed.get(ONE)
    of_speed = [
        [
            row["way"] + (f" ({row['pairs']} pairs)" if row["pairs"] < report["pairs"] else ""),
            f"{row['pairs_per_second']:.2f}",
            f"{row['pairs_per_second'] / speed[PADDED]:.2f}",
            "" if one is None else f"{row['pairs_per_second'] / one:.1f}",
            f"{row['identical']:.1%}",
            f"{row['gop_per_pair']:.1f}",
            f"{row['of_matmul_speed']:.0%}",
        ]
        for row in report["ways"]
    ]
    exact = report["quality"][PADDED]
    of_quality = []
    for name, found in report["quality"].items():
        curves = [found[curve] + exact[curve] for curve in ("precision_a", "precision_b")]
        furthest = max(abs(curve[i] - curve[i + PARTS]) for curve in curves for i in range(PARTS))
        perplexity = "" if found["perplexity"] is None else f"{found['perplexity']:.2f}"
        to_exact = "" if found["perplexity"] is None else f"{found['perplexity'] / exact['perplexity'] - 1:+.1%}"
        means = [" ".join(f"{value:.3f}" for value in found[curve]) for curve in ("precision_a", "precision_b")]
        of_quality.append([name, *means, f"{furthest:.3f}", f"{found['neither']:.1%}", perplexity, to_exact])
    speeds = ", ".join(f"{gops:.0f} in {bits} bits" for bits, gops in report["matmul_gops"].items())
    return "\n".join(
        [
            f"{report['pairs']} pairs of {report['sentences']}, beam {report['beams']}, α uniform, uncalibrated. "
            f"{conditions(report)} Matrix products of 1024 × 1024: {speeds} (10⁹ operations/s); the last column is the "
            "fraction of the one in the way's own precision.",
            "",
            *markdown(
                ["way", "pairs/s", "× padded", "× one", "identical", "10⁹ operations/pair", "of matrix speed"], of_speed
            ),
            "",
            f"Identical: to the texts of padded batches. Unigram precision against a and against b, by α in {PARTS} "
            "equal parts, and how far it lies at most from that of padded batches; words of neither text; perplexity.",
            "",
            *markdown(["way", "against a", "against b", "at most off", "neither", "perplexity", ""], of_quality),
        ]
    )


def flat_table(report: dict[str, Any]) -> str:
    rows = [[f"{run['rows']:,}", f"{run['ms_per_row']:.1f}", f"{run['peak_mb']:.0f}"] for run in report["runs"]]
    lead = (
        f"{report['engine']} engine, pairs of {report['sentences']}, beam {report['beams']}, α uniform. "
        f"{conditions(report)} Each run a process of its own."
    )
    return "\n".join([lead, "", *markdown(["rows", "ms/row", "most memory, MB"], rows)])


def conditions(report: dict[str, Any]) -> str:
    return (
        f"{report['machine']}, threads: {report['threads']}; torch {report['torch']}, "
        f"transformers {report['transformers']}."
    )


def markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    rule = ["---"] + ["--:"] * (len(head) - 1)
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


if __name__ == "__main__":
    main()
