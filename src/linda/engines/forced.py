"""Forced decoding: sequences that are given are read in parallel, not written step by step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from linda.engines.attention import attention_bias
from linda.engines.bart_family import Network
from linda.engines.decoding import Frame
from linda.engines.quantized import quantize
from linda.engines.short_list import Output
from linda.model.batching import NARROWEST

_POSITIONS_AT_ONCE = 2048  # rows of logits: 64 MB


def forced_inputs(sequences: Sequence[Sequence[Sequence[int]]], frame: Frame) -> tuple[int, Tensor]:
    """The tokens before each sequence, and what the decoder reads, (B, p, T), padded at the end."""
    prompt = [frame.start] if frame.forced_first is None else [frame.start, frame.forced_first]
    paths = max(map(len, sequences))
    length = len(prompt) + max(len(sequence) for row in sequences for sequence in row)
    inputs = torch.full((len(sequences), paths, length), frame.pad)
    for number, row in enumerate(sequences):
        for path, sequence in enumerate(row):
            inputs[number, path, : len(prompt) + len(sequence)] = torch.tensor([*prompt, *sequence])
    return len(prompt), inputs


def after_prompt(
    found: Sequence[Tensor], sequences: Sequence[Sequence[Sequence[int]]], prompt: int
) -> list[list[Tensor]]:
    """Rows (p, T, w) become one tensor per sequence, without the positions before it and after it."""
    return [
        [paths[number, prompt - 1 : prompt + len(sequence)] for number, sequence in enumerate(row)]
        for paths, row in zip(found, sequences, strict=True)
    ]


def forced_log_probabilities(
    network: Network, output: Output, states: Tensor, bias: Tensor, inputs: Tensor, wanted: Sequence[Sequence[int]]
) -> list[Tensor]:
    """Log-probabilities of some tokens after each position of given sequences.

    Args:
        network: the decoder.
        output: the output layer for this batch.
        states: what the decoder attends to, (B, S, d).
        bias: is added to the attention scores of the states, (B, S).
        inputs: p sequences per row, start marker included, padded at the end, (B, p, T).
        wanted: tokens whose probability is wanted, per row.

    Returns:
        Per row: (p, T, number of tokens wanted).
    """
    rows, paths, length = inputs.shape
    # A multiple of what fills a vector register: where a sequence lies must not change how its sums are rounded.
    padding = -length % NARROWEST
    inputs = F.pad(inputs, (0, padding))
    width = length + padding
    short = max(0, NARROWEST - states.shape[1])
    states, bias = F.pad(states, (0, 0, 0, short)), F.pad(bias, (0, short), value=-torch.inf)
    # Each sequence sees itself and what comes before: blocks of triangles.
    seen = torch.block_diag(*[torch.ones(width, width).tril()] * paths)
    past_bias = attention_bias(seen)[None, None]  # (1, 1, p·T, p·T)
    source_bias = bias[:, None, None]
    hidden = network.embedding(inputs.flatten(0, 1), 0).flatten(0, 1)  # (B·p·T, d)
    for layer in network.layers:
        hidden = layer(hidden, _as_they_are, past_bias, layer.source_memory(states), source_bias)
    hidden = network.norm(hidden).view(rows, paths, width, -1)[:, :, :length].flatten(0, 2)  # padding is not scored
    of_row = torch.arange(rows).repeat_interleave(paths * length)
    columns = [output.vocabulary.columns(torch.tensor(tokens)) for tokens in wanted]
    longest = max(map(len, columns))
    padded_columns = torch.stack([F.pad(found, (0, longest - len(found))) for found in columns])  # (B, w)
    parts = []
    for part, part_rows in zip(hidden.split(_POSITIONS_AT_ONCE), of_row.split(_POSITIONS_AT_ONCE), strict=True):
        logits = output.of_rows(quantize(part), part_rows)
        norms = logits.logsumexp(dim=1, keepdim=True)
        parts.append(logits.gather(1, padded_columns[part_rows]) - norms)
    found = torch.cat(parts).view(rows, paths, length, -1)
    return [row[:, :, : len(tokens)] for row, tokens in zip(found, wanted, strict=True)]


def _as_they_are(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values (B, q, H, k) of all positions, as attention takes them: (B, H, k, q) and (B, H, q, k)."""
    return keys.permute(0, 2, 3, 1), values.transpose(1, 2)
