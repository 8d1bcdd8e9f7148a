"""Which rows are most alike, as an encoder sees them: the partners of `--partners nearest`.

Texts are read and compared in blocks. What stays in memory is a vector of 16-bit numbers for each row (768 bytes with
MiniLM); the time for comparing grows with the square of the rows.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from linda.augmentation.examples import Examples
from linda.augmentation.plan import NoPartnerError
from linda.classifier.encoder import SentenceEncoder
from linda.model.pretrained import find_device

# How many of the rows most alike a row may meet.
NEIGHBOURS = 5

_BLOCK = 2048


def nearest_rows(examples: Examples, encoder: str | Path | None = None, *, progress: bool = False) -> np.ndarray:
    """The rows (n, k) most alike to each row, the nearest first; −1 for rows that are left out of everything.

    Two texts are as alike as the cosine of their mean states says. A pair of texts is read as one.
    """
    rows = np.flatnonzero(examples.labels.codes >= 0)
    if len(rows) < 2:
        raise NoPartnerError(f"there are {len(rows)} rows; a row's nearest is another one, give at least two")
    places = _most_alike(torch.cat(list(_vectors(examples, encoder, progress))), min(NEIGHBOURS, len(rows) - 1))
    nearest = np.full((len(examples.labels.codes), places.shape[1]), -1, dtype=np.int32)
    nearest[rows] = rows[places.numpy()]
    return nearest


@torch.inference_mode()
def _vectors(examples: Examples, encoder: str | Path | None, progress: bool) -> Iterator[Tensor]:
    """Blocks of unit vectors (≤ _BLOCK, d) of the rows that are not left out."""
    from tqdm import tqdm

    model = SentenceEncoder.from_pretrained(encoder).to(find_device()).eval()
    texts = (example for _, example in examples.scan())
    total = len(examples.table) - examples.skipped
    with tqdm(desc="neighbours", total=total, unit="row", disable=None if progress else True) as bar:
        while block := list(islice(texts, _BLOCK)):
            first, *second = (list(column) for column in zip(*block, strict=True))
            yield normalize(model(model.tokenize(first, *second))).half().cpu()
            bar.update(len(block))


def _most_alike(vectors: Tensor, count: int) -> Tensor:
    """The places (n, count) of the vectors with the largest product with each of `vectors` (n, d), but for itself."""
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
