"""Matrix products for the int8 engine, compared in one run: speed, and effect on the texts.

    ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 \\
        python benchmarks/decode_products.py MODEL SENTENCES --pairs 320 --language-model FOLDER --output DIR

All ways share the network, the short list of the vocabulary and the tree of paths; only the linear layers differ. The
baseline is `transformers`' generate on padded batches of 32. One thread, processor time. FBGEMM and MKL do not
read the two variables: FBGEMM uses VNNI if available.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import click
import torch
from decode import (
    PADDED,
    Job,
    Way,
    about_machine,
    add_perplexity,
    best_seconds,
    compare,
    comparison_tables,
    draw_jobs,
    generate_in_batches,
    markdown,
    publish,
    through_engine,
)
from torch import Tensor

from linda.engines import bart_family, int8_paths
from linda.engines.int8_engine import Int8Engine
from linda.engines.linear import FloatProduct, IntegerProduct, Product, SevenBitProduct
from linda.engines.quantized import Matrix, Rows, quantize
from linda.interpolation import Interpolator
from linda.model import LindaModel
from linda.model.tokens import Tokens

_LAYER = (160, 512, 2048)  # rows, inputs, outputs: a decoder's


class Unrounded:
    """32-bit activations and weights, without rounding beyond that of the stored weights."""

    largest_weight = 127

    def __init__(self, matrix: Matrix) -> None:
        self._weight = (matrix.numbers * matrix.scales[:, None]).t()

    def __call__(self, rows: Rows) -> Tensor:
        return torch.mm(rows.numbers, self._weight)


class FbgemmDynamic:
    """FBGEMM with 7-bit activations; one scale for the whole batch, so that a row depends on the others."""

    largest_weight = 127

    def __init__(self, matrix: Matrix) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # quantized tensors are deprecated in PyTorch
            weight = torch._make_per_channel_quantized_tensor(
                matrix.numbers, matrix.scales.double(), torch.zeros(len(matrix.scales), dtype=torch.long), 0
            )
        self._packed = torch.ops.quantized.linear_prepack(weight, None)

    def __call__(self, rows: Rows) -> Tensor:
        return torch.ops.quantized.linear_dynamic(rows.numbers, self._packed, True)


class WeightOnly:
    """PyTorch's own product of 32-bit activations and 8-bit weights."""

    largest_weight = 127

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix

    def __call__(self, rows: Rows) -> Tensor:
        return torch.ops.aten._weight_int8pack_mm(rows.numbers, *self._matrix)


# By name: the product, and whether its rows come in 8 bits.
PRODUCTS: dict[str, tuple[type[Product], bool]] = {
    "int8 by floats": (FloatProduct, True),
    "int8 by oneDNN, 7-bit weights": (SevenBitProduct, True),
    "FBGEMM dynamic, 7-bit activations": (FbgemmDynamic, False),
    "8-bit weights, 32-bit activations": (WeightOnly, False),
    "32 bits": (Unrounded, False),
}
_TOO_SLOW = "8-bit weights, 32-bit activations"


@click.command(help=__doc__.splitlines()[0] if __doc__ else None)
@click.argument("model", type=click.Path(exists=True, file_okay=False))
@click.argument("sentences", type=click.Path(exists=True, dir_okay=False))
@click.option("--pairs", default=320, show_default=True)
@click.option("--rounds", default=4, show_default=True, help="Parts of the pairs, between which ways alternate.")
@click.option("--language-model", help="Folder of a causal language model, for perplexity.")
@click.option("--seed", default=0, show_default=True)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the report and figures.")
def main(
    model: str, sentences: str, pairs: int, rounds: int, language_model: str | None, seed: int, output: Path | None
) -> None:
    torch.set_num_threads(1)
    products = dict(PRODUCTS)
    if IntegerProduct.is_exact():
        products["int8 by oneDNN"] = (IntegerProduct, True)
    layers = layer_table(products)
    click.echo(layers)
    linda = LindaModel.from_pretrained(model)
    ways: dict[str, Way] = {PADDED: generate_in_batches(linda, 32, 4)}
    for name, (product, in_8_bits) in products.items():
        if name != _TOO_SLOW:
            ways[name] = through_product(linda, product, in_8_bits)
    figures, texts = compare(ways, draw_jobs(sentences, pairs, seed), one_pairs=0, rounds=rounds, beams=4)
    report: dict[str, Any] = {"sentences": Path(sentences).name, "threads": 1, **about_machine(), **figures}
    publish(report, f"{comparison_tables(report)}\n\n{layers}", "products", "products", output)
    if language_model is not None:
        add_perplexity(report, texts, language_model)
        publish(report, f"{comparison_tables(report)}\n\n{layers}", "products", "products", output)


def through_product(linda: LindaModel, product: type[Product], in_8_bits: bool) -> Way:
    engine = Int8Engine(linda.config.base, linda.state_dict(), product)
    way = through_engine(Interpolator(linda.config, Tokens.of(linda), linda.converter, engine), 4)

    def unrounded(jobs: list[Job]) -> list[str]:
        with rows_in_32_bits():
            return way(jobs)

    return way if in_8_bits else unrounded


@contextlib.contextmanager
def rows_in_32_bits() -> Iterator[None]:
    """Pass rows to layers without quantizing them."""

    def same(rows: Tensor, spare: bool = False) -> Rows:
        return Rows(rows, torch.ones(len(rows), 1), 0)

    def above(floor: float, rows: Tensor) -> Rows:
        return same(rows.sub_(floor))

    with (
        mock.patch.object(bart_family, "quantize", same),
        mock.patch.object(bart_family, "quantize_above", above),
        mock.patch.object(int8_paths, "quantize", same),
    ):
        yield


def layer_table(products: dict[str, tuple[type[Product], bool]]) -> str:
    """Measure the milliseconds of one layer, including the rounding of its input."""
    count, inputs, outputs = _LAYER
    x, weight = torch.randn(count, inputs), torch.randn(outputs, inputs)
    table = []
    for name, (make, in_8_bits) in products.items():
        product = make(Matrix.of(weight, make.largest_weight))

        def layer(product: Product = product, in_8_bits: bool = in_8_bits) -> Tensor:
            return product(quantize(x) if in_8_bits else Rows(x, torch.ones(count, 1), 0))

        table.append([name, f"{1000 * best_seconds(layer):.2f}"])
    head = ["product", f"{count} rows, {inputs} → {outputs}, ms"]
    return "\n".join(markdown(head, table))


if __name__ == "__main__":
    main()
