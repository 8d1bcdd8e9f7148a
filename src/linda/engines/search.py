"""Beam search, greedy decoding and sampling over any decoder that extends paths step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from linda.engines.attention import attention_bias
from linda.engines.decoding import Decoding, Frame, Hypothesis

Seed = tuple[int, int]  # seed of the row, number of the sample

# Reductions over the vocabulary are twice as fast (measured on a CPU) in parts that fit in the cache.
_PATHS_IN_CACHE = 32
_BLOCK = 128


class Paths(Protocol):
    """A batch of rows, each decoded along one or more paths. Every engine implements this."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens (B, p), one per path; return the logits of the following token, (B, p, V)."""
        ...

    def follow(self, parents: Tensor) -> None:
        """Reorder the paths: path i of each row continues the previous path parents[:, i]; parents (B, p)."""
        ...

    def keep(self, order: list[int]) -> None:
        """Keep the rows `order`, in this order, and drop the others."""
        ...


class Vocabulary:
    """The mapping between columns of the logits and token ids, for the whole vocabulary or a subset."""

    def __init__(self, tokens: Tensor | None = None, size: int = 0) -> None:
        """Create a mapping; tokens (V,): token of each column, None for the identity; size: of the whole vocabulary."""
        self._tokens = tokens
        if tokens is not None:
            self._columns = tokens.new_full((size,), -1)
            self._columns[tokens] = torch.arange(len(tokens), device=tokens.device)

    def tokens(self, columns: Tensor) -> Tensor:
        return columns if self._tokens is None else self._tokens[columns]

    def columns(self, tokens: Tensor) -> Tensor:
        """Return the columns of tokens, −1 for a token without one."""
        return tokens if self._tokens is None else self._columns[tokens]


WHOLE = Vocabulary()


class StartPaths(Protocol):
    """Creates the paths of an engine for a batch."""

    def __call__(
        self, states: Tensor, bias: Tensor, *, copies: int, beams: int, longest: int
    ) -> tuple[Paths, Vocabulary]:
        """Start decoding.

        Args:
            states: Encoder states, (B, S, d), with each requested row repeated `copies` times.
            bias: Added to the attention scores of the states, (B, S).
            copies: How often each requested row is repeated.
            beams: Paths per row.
            longest: Maximum number of tokens of a path.

        Returns:
            The paths, and the vocabulary of their logits.
        """
        ...


def decode(
    start_paths: StartPaths,
    states: Tensor,
    mask: Tensor,
    frame: Frame,
    decoding: Decoding,
    seeds: Sequence[int],
    prior: Tensor | None = None,
    lengths: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Implement `Engine.decode` for any engine; its arguments are described there.

    Args:
        start_paths: Creates the engine's paths.
        states: Encoder states, (B, S, d).
        mask: 1 for real states, (B, S).
        frame: Special tokens of the decoder.
        decoding: Decoding settings.
        seeds: One seed per row.
        prior: Added to the attention scores, (B, S), or None.
        lengths: One target length per row, or None.

    Returns:
        `decoding.n` hypotheses per row, best first.
    """
    limits = [decoding.limit(length, frame.window) for length in lengths or mask.sum(dim=1).tolist()]
    bias = attention_bias(mask, prior)
    if not decoding.sample and decoding.beams > 1:
        paths, vocabulary = start_paths(states, bias, copies=1, beams=decoding.beams, longest=max(limits))
        return beam_search(paths, frame, decoding, limits, states.device, vocabulary)
    n = decoding.n
    states, bias = states.repeat_interleave(n, dim=0), bias.repeat_interleave(n, dim=0)
    limits = [limit for limit in limits for _ in range(n)]
    streams = [(seed, sample) for seed in seeds for sample in range(n)]
    paths, vocabulary = start_paths(states, bias, copies=n, beams=1, longest=max(limits))
    texts = decode_single_paths(paths, frame, decoding, limits, streams, states.device, vocabulary)
    return [texts[row : row + n] for row in range(0, len(texts), n)]


def beam_search(
    paths: Paths,
    frame: Frame,
    decoding: Decoding,
    limits: Sequence[int],
    device: torch.device,
    vocabulary: Vocabulary = WHOLE,
) -> list[list[Hypothesis]]:
    """Find the same texts as the beam search of `transformers` with early_stopping=False, row by row.

    A row is removed from the batch when that search would stop, or earlier, when no open path can overtake the n-th
    best finished one: log-probabilities only decrease, so the current score is an upper bound.
    """
    beams, penalty = decoding.beams, decoding.length_penalty
    width = beams * (1 + len(frame.ends))  # at least `beams` continuations are not end markers
    rows = list(range(len(limits)))  # index in the batch → requested row
    finished: list[list[Hypothesis]] = [[] for _ in rows]
    logits, tokens = _feed_prompt(paths, frame, len(rows), device)
    scores = logits.new_zeros(len(rows), 1)
    ends = torch.tensor(frame.ends, device=device)
    banned = _banned(frame, decoding, vocabulary, device)

    while True:
        length = tokens.shape[2]  # tokens written after this step; the start marker does not count
        logits = _masked(logits, tokens, banned, decoding, vocabulary)
        scores, parents, columns = _best_continuations(logits, scores, width)
        chosen = vocabulary.tokens(columns)
        ending = torch.isin(chosen, ends)
        texts = tokens.gather(1, parents[:, :, None].expand(-1, -1, length))
        tokens = torch.cat([texts, chosen[:, :, None]], dim=2)  # (B, width, 1 + length)

        for row, rank in ending[:, :beams].nonzero().tolist():
            _finish(finished[rows[row]], tokens[row, rank], scores[row, rank].item() / length**penalty, beams)
        still_open = ending.to(torch.int8).argsort(dim=1, stable=True)[:, :beams]
        scores, parents, chosen = (x.gather(1, still_open) for x in (scores, parents, chosen))
        tokens = tokens.gather(1, still_open[:, :, None].expand(-1, -1, length + 1))

        open_rows = []
        for place, best in enumerate(scores[:, 0].tolist()):
            row = rows[place]
            if _is_decided(finished[row], best, length, limits[row], decoding):
                continue
            if length + 1 < limits[row]:
                open_rows.append(place)
                continue
            for text, score in zip(tokens[place], scores[place].tolist(), strict=True):
                ended = torch.cat([text, ends[:1]])  # limit reached: append the end marker at no cost
                _finish(finished[row], ended, score / (length + 1) ** penalty, beams)
        if not open_rows:
            return [texts[: decoding.n] for texts in finished]
        paths.follow(parents)
        if len(open_rows) < len(rows):
            order = _closing_gaps(open_rows)
            paths.keep(order)
            rows = [rows[place] for place in order]
            scores, chosen, tokens = scores[order], chosen[order], tokens[order]
        logits = paths.step(chosen)


def decode_single_paths(
    paths: Paths,
    frame: Frame,
    decoding: Decoding,
    limits: Sequence[int],
    seeds: Sequence[Seed],
    device: torch.device,
    vocabulary: Vocabulary = WHOLE,
) -> list[Hypothesis]:
    """Decode one path per row: greedily, or by sampling from the row's own random stream."""
    rows = list(range(len(limits)))
    texts: list[Hypothesis | None] = [None] * len(rows)
    logits, tokens = _feed_prompt(paths, frame, len(rows), device)
    sums = logits.new_zeros(len(rows))
    choose = _sampler(decoding, seeds, max(limits), device) if decoding.sample else _likeliest
    banned = _banned(frame, decoding, vocabulary, device)

    while True:
        length = tokens.shape[2]
        logits = _masked(logits, tokens, banned, decoding, vocabulary)
        log_probabilities = logits[:, 0].log_softmax(dim=-1)  # (B, V)
        columns = choose(log_probabilities, rows, length)
        sums = sums + log_probabilities.gather(1, columns[:, None])[:, 0]
        chosen = vocabulary.tokens(columns)
        tokens = torch.cat([tokens, chosen[:, None, None]], dim=2)

        open_rows = []
        for place, token in enumerate(chosen.tolist()):
            row = rows[place]
            at_limit = token not in frame.ends and length + 1 >= limits[row]
            if token in frame.ends or at_limit:
                ids = tokens[place, 0, 1:].tolist() + [frame.ends[0]] * at_limit
                texts[row] = Hypothesis(ids, sums[place].item() / len(ids) ** decoding.length_penalty)
            else:
                open_rows.append(place)
        if not open_rows:
            return [text for text in texts if text is not None]
        if len(open_rows) < len(rows):
            order = _closing_gaps(open_rows)
            paths.keep(order)
            rows = [rows[place] for place in order]
            sums, chosen, tokens = sums[order], chosen[order], tokens[order]
        logits = paths.step(chosen[:, None])


def _feed_prompt(paths: Paths, frame: Frame, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Feed the prompt to one path per row."""
    tokens = torch.tensor(frame.prompt, device=device).expand(rows, 1, -1)  # (B, 1, prompt)
    for place in range(len(frame.prompt)):
        logits = paths.step(tokens[:, :, place])
    return logits, tokens


def _banned(frame: Frame, decoding: Decoding, vocabulary: Vocabulary, device: torch.device) -> Tensor:
    """Return the columns of the tokens that are never generated."""
    columns = vocabulary.columns(torch.tensor([*frame.banned, *decoding.withheld], dtype=torch.long, device=device))
    return columns[columns >= 0]


def _masked(logits: Tensor, tokens: Tensor, banned: Tensor, decoding: Decoding, vocabulary: Vocabulary) -> Tensor:
    """Mask the logits (B, p, V) of tokens that must not follow tokens (B, p, t); return 32-bit floats."""
    logits = logits.float()
    logits[:, :, banned] = -torch.inf
    size = decoding.no_repeat_ngram
    if 0 < size <= tokens.shape[2]:
        ngrams = tokens.unfold(2, size, 1)  # (B, p, t-size+1, size)
        begun = tokens[:, :, None, tokens.shape[2] - size + 1 :]
        row, path, time = (ngrams[..., :-1] == begun).all(dim=-1).nonzero(as_tuple=True)
        columns = vocabulary.columns(ngrams[row, path, time, -1])
        known = columns >= 0
        logits[row[known], path[known], columns[known]] = -torch.inf
    return logits


def _best_continuations(logits: Tensor, scores: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `width` best continuations of paths with logits (B, p, V) and scores (B, p).

    The best are in the blocks of columns with the largest maxima, so only those blocks, and the columns after the last
    block, are sorted: `topk` over the whole vocabulary would take longer than the rest of the search.

    Returns:
        Score, parent path and column, (B, width) each.
    """
    rows, paths, vocabulary = logits.shape
    in_blocks = vocabulary // _BLOCK * _BLOCK
    blocks = logits[:, :, :in_blocks].unflatten(2, (-1, _BLOCK))  # (B, p, V/block, block)
    maxima, rest = blocks.amax(dim=3), logits[:, :, in_blocks:]
    scores = scores[:, :, None]
    largest = torch.cat([maxima, rest], dim=2).amax(dim=2, keepdim=True)  # (B, p, 1)
    norms = log_sums_of(logits.flatten(0, 1), largest.flatten(0, 1)).view_as(largest)

    best_blocks = (maxima - norms + scores).flatten(1)
    best_blocks = best_blocks.topk(min(width, best_blocks.shape[1]), dim=1).indices  # (B, selected blocks)
    per_path = max(1, maxima.shape[2])
    row, path, block = (
        torch.arange(rows, device=logits.device)[:, None],
        best_blocks // per_path,
        best_blocks % per_path,
    )
    inside = blocks[row, path, block] - norms[row, path] + scores[row, path]  # (B, selected blocks, block)
    totals = torch.cat([inside.flatten(1), (rest - norms + scores).flatten(1)], dim=1)
    best = totals.topk(min(width, totals.shape[1]), dim=1)

    place = torch.arange(_BLOCK, device=logits.device)
    inside_path, inside_column = path[:, :, None].expand_as(inside), (block * _BLOCK)[:, :, None] + place
    rest_path = torch.arange(paths, device=logits.device)[:, None].expand(paths, rest.shape[2]).flatten()
    rest_column = torch.arange(in_blocks, vocabulary, device=logits.device).repeat(paths)
    parents = torch.cat([inside_path.flatten(1), rest_path.expand(rows, -1)], dim=1).gather(1, best.indices)
    columns = torch.cat([inside_column.flatten(1), rest_column.expand(rows, -1)], dim=1).gather(1, best.indices)
    return best.values, parents, columns


def log_sums_of(logits: Tensor, maxima: Tensor) -> Tensor:
    """Return log Σ exp (N, 1) over the last dimension of logits (N, V), given their maxima (N, 1)."""
    buffer = torch.empty_like(logits[:_PATHS_IN_CACHE])
    sums = [
        torch.sub(part, part_largest, out=buffer[: len(part)]).exp_().sum(dim=1, keepdim=True)
        for part, part_largest in zip(logits.split(_PATHS_IN_CACHE), maxima.split(_PATHS_IN_CACHE), strict=True)
    ]
    return torch.cat(sums).log_().add_(maxima)


def _finish(finished: list[Hypothesis], text: Tensor, score: float, beams: int) -> None:
    """Add a text (with its start marker) to the at most `beams` finished texts of a row, best first."""
    finished.append(Hypothesis(text[1:].tolist(), score))
    finished.sort(key=lambda hypothesis: -hypothesis.score)
    del finished[beams:]


def _is_decided(finished: list[Hypothesis], best: float, length: int, limit: int, decoding: Decoding) -> bool:
    """Whether no open path can change the result; the best has the log-probability `best` after `length` tokens."""
    penalty = decoding.length_penalty
    if len(finished) == decoding.beams and best / length**penalty <= finished[-1].score:
        return True  # the stopping rule of `transformers`
    reachable = max(best / (length + 1) ** penalty, best / limit**penalty)
    return len(finished) >= decoding.n and reachable <= finished[decoding.n - 1].score


def _closing_gaps(open_rows: list[int]) -> list[int]:
    """Order the open rows so that as few as possible move: rows from the end fill the gaps."""
    count = len(open_rows)
    stay = {place for place in open_rows if place < count}
    movers = iter([place for place in open_rows if place >= count])
    return [place if place in stay else next(movers) for place in range(count)]


def _likeliest(log_probabilities: Tensor, rows: list[int], length: int) -> Tensor:
    return log_probabilities.argmax(dim=-1)


def _sampler(
    decoding: Decoding, seeds: Sequence[Seed], steps: int, device: torch.device
) -> Callable[[Tensor, list[int], int], Tensor]:
    """Return a function that samples with one uniform number per row and step, from each row's own stream."""
    streams = np.stack([np.random.default_rng(seed).random(steps, dtype=np.float32) for seed in seeds])
    uniforms = torch.from_numpy(streams).to(device)  # (requested rows, steps)

    def draw(log_probabilities: Tensor, rows: list[int], length: int) -> Tensor:
        weights, tokens = _nucleus((log_probabilities / decoding.temperature).softmax(dim=-1), decoding)
        cumulative = weights.cumsum(dim=-1)
        aim = uniforms[rows, length - 1][:, None] * cumulative[:, -1:]
        place = torch.searchsorted(cumulative, aim, right=True).clamp_max(cumulative.shape[1] - 1)
        return (place if tokens is None else tokens.gather(1, place))[:, 0]

    return draw


def _nucleus(probabilities: Tensor, decoding: Decoding) -> tuple[Tensor, Tensor | None]:
    """Return the weights after top-k and top-p, likeliest first, and their tokens (None: all, in order)."""
    vocabulary = probabilities.shape[1]
    if decoding.top_k == 0 and decoding.top_p == 1.0:
        return probabilities, None
    width = min(decoding.top_k or 256, vocabulary)
    top = probabilities.topk(width, dim=1)
    while decoding.top_k == 0 and width < vocabulary and (top.values.sum(dim=1) < decoding.top_p).any():
        width = min(4 * width, vocabulary)  # sorting the whole vocabulary is rarely needed
        top = probabilities.topk(width, dim=1)
    mass = top.values.sum(dim=1, keepdim=True) if decoding.top_k else 1.0
    before = top.values.cumsum(dim=1) - top.values
    return top.values.where(before < decoding.top_p * mass, 0.0), top.indices
