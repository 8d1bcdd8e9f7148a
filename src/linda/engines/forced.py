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


def forced_inputs(sequences: Sequence[Sequence[int]], frame: Frame) -> tuple[int, Tensor]:
    """The number of tokens before each sequence, and what the decoder reads, (N, T), padded at the end."""
    prompt = [frame.start] if frame.forced_first is None else [frame.start, frame.forced_first]
    inputs = torch.full((len(sequences), len(prompt) + max(map(len, sequences))), frame.pad)
    for number, sequence in enumerate(sequences):
        inputs[number, : len(prompt) + len(sequence)] = torch.tensor([*prompt, *sequence])
    return len(prompt), inputs


def forced_log_probabilities(
    network: Network,
    output: Output,
    states: Tensor,
    bias: Tensor,
    inputs: Tensor,
    row: Tensor,
    wanted: Sequence[Sequence[int]],
) -> list[Tensor]:
    """Log-probabilities of some tokens after each position of given sequences.

    Args:
        network: the decoder.
        output: the output layer for this batch.
        states: what the decoder attends to, (B, S, d).
        bias: is added to the attention scores of the states, (B, S).
        inputs: N sequences, start marker included, padded at the end, (N, T).
        row: the row of the batch that each sequence is of, (N,).
        wanted: tokens whose probability is wanted, per row.

    Returns:
        Per sequence: (T, number of tokens wanted).
    """
    count, length = inputs.shape
    # A multiple of what fills a vector register: how long the others are must not change how a sum is rounded.
    width = length + -length % NARROWEST
    states, bias = _filled(states, 0.0), _filled(bias[..., None], -torch.inf)[..., 0]
    past_bias = attention_bias(torch.ones(width, width).tril())[None, None]  # (1, 1, T, T)
    source_bias = bias[row, None, None]
    embedded = network.embedding(inputs, 0)
    hidden = F.pad(embedded, (0, 0, 0, width - length)).flatten(0, 1)  # (N·T, d)
    for layer in network.layers:
        keys, values = layer.source_memory(states)
        hidden = layer(hidden, _as_they_are, past_bias, (keys[row], values[row]), source_bias)
    hidden = network.norm(hidden).view(count, width, -1)[:, :length].flatten(0, 1)  # padding is not scored
    columns = [output.vocabulary.columns(torch.tensor(tokens)) for tokens in wanted]
    longest = max(map(len, columns))
    padded_columns = torch.stack([F.pad(found, (0, longest - len(found))) for found in columns])  # (B, w)
    parts = []
    of_position = row.repeat_interleave(length)
    for part, part_rows in zip(hidden.split(_POSITIONS_AT_ONCE), of_position.split(_POSITIONS_AT_ONCE), strict=True):
        logits = output.of_rows(quantize(part), part_rows)
        norms = logits.logsumexp(dim=1, keepdim=True)
        part_columns = padded_columns[part_rows]
        log_p = logits.gather(1, part_columns.clamp_min(0)) - norms
        parts.append(log_p.masked_fill_(part_columns < 0, -torch.inf))  # a token that is never written
    found = torch.cat(parts).view(count, length, -1)
    return [sequence[:, : len(wanted[number])] for sequence, number in zip(found, row.tolist(), strict=True)]


def _filled(tensor: Tensor, value: float) -> Tensor:
    """(B, S, …) with S made a multiple of what fills a vector register."""
    return F.pad(tensor, (0, 0, 0, -tensor.shape[1] % NARROWEST), value=value)


def _as_they_are(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values (B, q, H, k) of all positions, as attention takes them: (B, H, k, q) and (B, H, q, k)."""
    return keys.permute(0, 2, 3, 1), values.transpose(1, 2)
