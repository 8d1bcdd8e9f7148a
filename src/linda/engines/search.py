"""Beam search, greedy and sampling over any decoder that writes paths step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from linda.engines.attention import attention_bias
from linda.engines.decoding import Decoding, Frame, Hypothesis

Seed = tuple[int, int]  # the row's seed, the number of the sample

# Measured on a CPU: a vocabulary is reduced twice as fast in parts that stay in the cache.
_PATHS_IN_CACHE = 32
_BLOCK = 128


class Paths(Protocol):
    """A batch of rows, each written along one or more paths. An engine is one such class."""

    def step(self, tokens: Tensor) -> Tensor:
        """tokens (B, p), the next token of each path → logits (B, p, V) of the token after it."""
        ...

    def follow(self, parents: Tensor) -> None:
        """Path i of each row goes on from what was its path parents[:, i]; parents (B, p)."""
        ...

    def keep(self, order: list[int]) -> None:
        """Row i of the batch is now what was row order[i]; the others are gone."""
        ...


class Vocabulary:
    """Which tokens the columns of the logits stand for: all, in order, or a list of some."""

    def __init__(self, tokens: Tensor | None = None, size: int = 0) -> None:
        """tokens (V,): the token of each column, None: token i is column i; size: how many tokens there are at all."""
        self._tokens = tokens
        if tokens is not None:
            self._columns = tokens.new_full((size,), -1)
            self._columns[tokens] = torch.arange(len(tokens), device=tokens.device)

    def tokens(self, columns: Tensor) -> Tensor:
        return columns if self._tokens is None else self._tokens[columns]

    def columns(self, tokens: Tensor) -> Tensor:
        """−1 for a token that has none."""
        return tokens if self._tokens is None else self._columns[tokens]


WHOLE = Vocabulary()


class Begin(Protocol):
    """Makes an engine's paths for a batch."""

    def __call__(
        self, states: Tensor, bias: Tensor, *, copies: int, beams: int, longest: int
    ) -> tuple[Paths, Vocabulary]:
        """Begins to write.

        Args:
            states: what is attended to, (B, S, d), each row of the request `copies` times in turn.
            bias: is added to the attention scores of its positions, (B, S).
            copies: how often each row of the request comes.
            beams: paths per row.
            longest: the most tokens of a path.

        Returns:
            The paths, and which tokens the columns of their logits stand for.
        """
        ...


def write(
    begin: Begin,
    states: Tensor,
    mask: Tensor,
    frame: Frame,
    decoding: Decoding,
    seeds: Sequence[int],
    prior: Tensor | None = None,
    lengths: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """What every engine's `decode` comes to; its arguments are described there (`Engine.decode`).

    Args:
        begin: makes the engine's paths.
        states: (B, S, d).
        mask: (B, S).
        frame: the markers around a text.
        decoding: how a text is chosen.
        seeds: one per row.
        prior: (B, S), or None.
        lengths: one per row, or None.

    Returns:
        `decoding.n` texts per row, the best first.
    """
    limits = [decoding.limit(length, frame.window) for length in lengths or mask.sum(dim=1).tolist()]
    bias = attention_bias(mask, prior)
    if not decoding.sample and decoding.beams > 1:
        paths, vocabulary = begin(states, bias, copies=1, beams=decoding.beams, longest=max(limits))
        return beam_search(paths, frame, decoding, limits, states.device, vocabulary)
    n = decoding.n
    states, bias = states.repeat_interleave(n, dim=0), bias.repeat_interleave(n, dim=0)
    limits = [limit for limit in limits for _ in range(n)]
    streams = [(seed, sample) for seed in seeds for sample in range(n)]
    paths, vocabulary = begin(states, bias, copies=n, beams=1, longest=max(limits))
    texts = walk(paths, frame, decoding, limits, streams, states.device, vocabulary)
    return [texts[row : row + n] for row in range(0, len(texts), n)]


def beam_search(
    paths: Paths,
    frame: Frame,
    decoding: Decoding,
    limits: Sequence[int],
    device: torch.device,
    vocabulary: Vocabulary = WHOLE,
) -> list[list[Hypothesis]]:
    """The same texts as `transformers`' beam search with early_stopping=False, row by row.

    A row leaves the batch when that search would stop, or already when no open path can overtake the n-th best
    finished one: log-probabilities only fall, so what a path can still reach is bounded by its score now.
    """
    beams, penalty = decoding.beams, decoding.length_penalty
    width = beams * (1 + len(frame.ends))  # enough that `beams` paths go on if all others end here
    rows = list(range(len(limits)))  # live rows: place in the batch → row asked for
    finished: list[list[Hypothesis]] = [[] for _ in rows]
    logits, tokens = _begin(paths, frame, len(rows), device)
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
        going_on = ending.to(torch.int8).argsort(dim=1, stable=True)[:, :beams]
        scores, parents, chosen = (x.gather(1, going_on) for x in (scores, parents, chosen))
        tokens = tokens.gather(1, going_on[:, :, None].expand(-1, -1, length + 1))

        open_rows = []
        for place, best in enumerate(scores[:, 0].tolist()):
            row = rows[place]
            if _is_decided(finished[row], best, length, limits[row], decoding):
                continue
            if length + 1 < limits[row]:
                open_rows.append(place)
                continue
            for text, score in zip(tokens[place], scores[place].tolist(), strict=True):
                ended = torch.cat([text, ends[:1]])  # the limit: the end marker follows, and costs nothing
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


def walk(
    paths: Paths,
    frame: Frame,
    decoding: Decoding,
    limits: Sequence[int],
    seeds: Sequence[Seed],
    device: torch.device,
    vocabulary: Vocabulary = WHOLE,
) -> list[Hypothesis]:
    """One path per row: the likeliest token at each step, or when sampling one drawn from the row's own stream."""
    rows = list(range(len(limits)))
    texts: list[Hypothesis | None] = [None] * len(rows)
    logits, tokens = _begin(paths, frame, len(rows), device)
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


def _begin(paths: Paths, frame: Frame, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Writes the start marker, and the forced first token if any, along one path per row."""
    prompt = [frame.start] if frame.forced_first is None else [frame.start, frame.forced_first]
    tokens = torch.tensor(prompt, device=device).expand(rows, 1, len(prompt))  # (B, 1, prompt)
    for place in range(len(prompt)):
        logits = paths.step(tokens[:, :, place])
    return logits, tokens


def _banned(frame: Frame, decoding: Decoding, vocabulary: Vocabulary, device: torch.device) -> Tensor:
    """The columns of the tokens that are never written."""
    columns = vocabulary.columns(torch.tensor([*frame.banned, *decoding.withheld], dtype=torch.long, device=device))
    return columns[columns >= 0]


def _masked(logits: Tensor, tokens: Tensor, banned: Tensor, decoding: Decoding, vocabulary: Vocabulary) -> Tensor:
    """Logits (B, p, V) in 32 bits, without the tokens that must not follow tokens (B, p, t)."""
    logits = logits.float()
    logits[:, :, banned] = -torch.inf
    size = decoding.no_repeat_ngram
    if 0 < size <= tokens.shape[2]:
        ngrams = tokens.unfold(2, size, 1)  # (B, p, t-size+1, size)
        begun = tokens[:, :, None, tokens.shape[2] - size + 1 :]
        row, path, time = (ngrams[..., :-1] == begun).all(dim=-1).nonzero(as_tuple=True)
        columns = vocabulary.columns(ngrams[row, path, time, -1])
        there = columns >= 0
        logits[row[there], path[there], columns[there]] = -torch.inf
    return logits


def _best_continuations(logits: Tensor, scores: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """logits (B, p, V) and scores (B, p) of the paths → the `width` best: score, parent path, column, (B, width).

    The best lie in the blocks of columns with the largest maxima, so that only those, and what is left over after the
    last block, are sorted: `topk` over a whole vocabulary would take longer than all the rest.
    """
    rows, paths, vocabulary = logits.shape
    in_blocks = vocabulary // _BLOCK * _BLOCK
    blocks = logits[:, :, :in_blocks].unflatten(2, (-1, _BLOCK))  # (B, p, V/block, block)
    maxima, rest = blocks.amax(dim=3), logits[:, :, in_blocks:]
    scores = scores[:, :, None]
    largest = torch.cat([maxima, rest], dim=2).amax(dim=2, keepdim=True)  # (B, p, 1)
    norms = log_sums_of(logits.flatten(0, 1), largest.flatten(0, 1)).view_as(largest)

    best_blocks = (maxima - norms + scores).flatten(1)
    best_blocks = best_blocks.topk(min(width, best_blocks.shape[1]), dim=1).indices  # (B, blocks looked at)
    per_path = max(1, maxima.shape[2])
    row, path, block = (
        torch.arange(rows, device=logits.device)[:, None],
        best_blocks // per_path,
        best_blocks % per_path,
    )
    inside = blocks[row, path, block] - norms[row, path] + scores[row, path]  # (B, blocks looked at, block)
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
    """log Σ exp over the last dimension of (N, V), whose largest are known, (N, 1); gives (N, 1)."""
    room = torch.empty_like(logits[:_PATHS_IN_CACHE])
    sums = [
        torch.sub(part, part_largest, out=room[: len(part)]).exp_().sum(dim=1, keepdim=True)
        for part, part_largest in zip(logits.split(_PATHS_IN_CACHE), maxima.split(_PATHS_IN_CACHE), strict=True)
    ]
    return torch.cat(sums).log_().add_(maxima)


def _finish(finished: list[Hypothesis], text: Tensor, score: float, beams: int) -> None:
    """Enters a text (with its start marker) among a row's finished ones, best first, no more than `beams`."""
    finished.append(Hypothesis(text[1:].tolist(), score))
    finished.sort(key=lambda hypothesis: -hypothesis.score)
    del finished[beams:]


def _is_decided(finished: list[Hypothesis], best: float, length: int, limit: int, decoding: Decoding) -> bool:
    """Whether open paths, the best of which has the sum `best` after `length` tokens, matter no more."""
    penalty = decoding.length_penalty
    if len(finished) == decoding.beams and best / length**penalty <= finished[-1].score:
        return True  # here `transformers` stops
    reachable = max(best / (length + 1) ** penalty, best / limit**penalty)
    return len(finished) >= decoding.n and reachable <= finished[decoding.n - 1].score


def _closing_gaps(open_rows: list[int]) -> list[int]:
    """An order of the open rows in which as few as possible move: those from the end into the gaps."""
    count = len(open_rows)
    stay = {place for place in open_rows if place < count}
    movers = iter([place for place in open_rows if place >= count])
    return [place if place in stay else next(movers) for place in range(count)]


def _likeliest(log_probabilities: Tensor, rows: list[int], length: int) -> Tensor:
    return log_probabilities.argmax(dim=-1)


def _sampler(
    decoding: Decoding, seeds: Sequence[Seed], steps: int, device: torch.device
) -> Callable[[Tensor, list[int], int], Tensor]:
    """Draws by one uniform number per row and step, from a stream of the row's own."""
    streams = np.stack([np.random.default_rng(seed).random(steps, dtype=np.float32) for seed in seeds])
    uniforms = torch.from_numpy(streams).to(device)  # (rows asked for, steps)

    def draw(log_probabilities: Tensor, rows: list[int], length: int) -> Tensor:
        weights, tokens = _nucleus((log_probabilities / decoding.temperature).softmax(dim=-1), decoding)
        cumulative = weights.cumsum(dim=-1)
        aim = uniforms[rows, length - 1][:, None] * cumulative[:, -1:]
        place = torch.searchsorted(cumulative, aim, right=True).clamp_max(cumulative.shape[1] - 1)
        return (place if tokens is None else tokens.gather(1, place))[:, 0]

    return draw


def _nucleus(probabilities: Tensor, decoding: Decoding) -> tuple[Tensor, Tensor | None]:
    """The weights that top-k and top-p leave, likeliest first, and their tokens (None: every token, in order)."""
    vocabulary = probabilities.shape[1]
    if decoding.top_k == 0 and decoding.top_p == 1.0:
        return probabilities, None
    width = min(decoding.top_k or 256, vocabulary)
    top = probabilities.topk(width, dim=1)
    while decoding.top_k == 0 and width < vocabulary and (top.values.sum(dim=1) < decoding.top_p).any():
        width = min(4 * width, vocabulary)  # a sort of the whole vocabulary is seldom needed
        top = probabilities.topk(width, dim=1)
    mass = top.values.sum(dim=1, keepdim=True) if decoding.top_k else 1.0
    before = top.values.cumsum(dim=1) - top.values
    return top.values.where(before < decoding.top_p * mass, 0.0), top.indices
