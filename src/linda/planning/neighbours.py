"""The most similar rows by the cosine of sentence embeddings: the partners of `--partners nearest`.

Texts are read and compared in blocks. Memory: one float16 vector per row (768 bytes with MiniLM). Time: quadratic in
the number of rows.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from linda.classifier.encoder import SentenceEncoder
from linda.model.pretrained import find_device
from linda.planning.examples import Examples
from linda.planning.plan import NoPartnerError

# How many of the most similar rows may be mixed with a row.
NEIGHBOURS = 5

_BLOCK = 2048


def nearest_rows(examples: Examples, encoder: str | Path | None = None, *, progress: bool = False) -> np.ndarray:
    """The k most similar rows of each row, nearest first.

    Args:
        examples: The rows. The two texts of a pair are encoded together.
        encoder: Folder or hub name of the encoder; None for all-MiniLM-L6-v2.
        progress: Show a progress bar.

    Returns:
        Row numbers (n, k), with −1 for skipped rows.
    """
    rows = examples.kept
    if len(rows) < 2:
        raise NoPartnerError(f"there are {len(rows)} rows; nearest partners need at least two")
    places = _most_similar(torch.cat(list(_vectors(examples, encoder, progress))), min(NEIGHBOURS, len(rows) - 1))
    nearest = np.full((len(examples.labels.codes), places.shape[1]), -1, dtype=np.int32)
    nearest[rows] = rows[places.numpy()]
    return nearest


@torch.inference_mode()
def _vectors(examples: Examples, encoder: str | Path | None, progress: bool) -> Iterator[Tensor]:
    """Unit vectors of the rows that are not skipped, in blocks (≤ _BLOCK, d)."""
    from tqdm import tqdm

    model = SentenceEncoder.from_pretrained(encoder).to(find_device()).eval()
    texts = (example for _, example in examples.scan())
    hidden = None if progress else True  # None: shown on a terminal
    with tqdm(desc="neighbours", total=len(examples.kept), unit="row", disable=hidden) as bar:
        while block := list(islice(texts, _BLOCK)):
            first, *second = (list(column) for column in zip(*block, strict=True))
            yield normalize(model(model.tokenize(first, *second))).half().cpu()
            bar.update(len(block))


def _most_similar(vectors: Tensor, count: int) -> Tensor:
    """For each of `vectors` (n, d), the positions (n, count) of the others with the largest dot product."""
    everyone = torch.arange(len(vectors)).split(_BLOCK)
    found = []
    for rows in everyone:
        products = torch.empty(len(rows), 0)
        places = torch.empty(len(rows), 0, dtype=torch.long)
        for others in everyone:
            block = vectors[rows].float() @ vectors[others].float().T
            block[rows[:, None] == others] = -torch.inf
            products = torch.cat([products, block], dim=1)
            places = torch.cat([places, others.expand(len(rows), -1)], dim=1)
            products, best = products.topk(min(count, products.shape[1]))
            places = places.gather(1, best)
        found.append(places)
    return torch.cat(found)
