"""Writes the texts of jobs, and joins the texts of the jobs of a row.

A model that mixes by attention chooses a crossover between the texts of a job. Jobs without a crossover are encoded,
mixed and decoded. Both is done in batches of similar length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from linda.engines.decoding import Decoding
from linda.interpolation.between import Kind, decoding_by_kind, is_unwanted, without_broken
from linda.interpolation.crossing import CrossedTexts, cross, sequences_of
from linda.interpolation.encoded_texts import EncodedTexts
from linda.interpolation.jobs import Ids, Job, chunks
from linda.interpolation.memory import return_freed_memory
from linda.model.batching import batches, padded
from linda.model.length_converter import Mixture, mixed_lengths

if TYPE_CHECKING:
    from linda.interpolation.interpolator import Interpolator

# Jobs are sorted by length within a chunk. Longer chunks have less padding, but a longer delay before the first row.
_BATCHES_IN_CHUNK = 8


class JobWriter:
    """Writes jobs with one model.

    Args:
        model: Interpolator whose engine, tokenizer and mixing are used.
        decoding: Decoding settings.
        encoded: Cache of encoder states that is shared with other calls; None for a new one.
        batch_tokens: Maximum tokens per batch; None for the default of the engine.
        on_progress: Function called with the number of newly finished rows.
    """

    def __init__(
        self,
        model: Interpolator,
        decoding: Decoding,
        encoded: EncodedTexts | None,
        batch_tokens: int | None,
        on_progress: Callable[[int], object] | None,
    ) -> None:
        self._model, self._decoding, self._given_batch_tokens = model, decoding, batch_tokens
        self._encoded = model.encoded_texts(batch_tokens=self._batch_tokens) if encoded is None else encoded
        self._on_progress = on_progress or (lambda count: None)

    @property
    def _batch_tokens(self) -> int:
        """Maximum tokens per batch. The engine lowers its default when it runs out of memory."""
        given = self._given_batch_tokens
        return self._model.engine.batch_tokens if given is None else given

    def rows(self, jobs: Iterable[Job]) -> Iterator[list[str]]:
        """Yield the candidates of each row."""
        texts = [""] * self._decoding.n  # of the current row
        for chunk in chunks(jobs, _BATCHES_IN_CHUNK * self._batch_tokens):
            for job, candidates in zip(chunk, self._write(chunk), strict=True):
                texts = [text + new + job.gap for text, new in zip(texts, candidates, strict=True)]
                if job.ends_row:
                    yield texts
                    texts = [""] * self._decoding.n
            return_freed_memory()

    @torch.inference_mode()
    def _write(self, jobs: list[Job]) -> list[list[str]]:
        """Return the candidates of each job, in the order of the jobs."""
        written, jobs = self._cross(jobs)
        n, paths = self._decoding.n, self._decoding.paths
        left = [i for i, texts in enumerate(written) if len(texts) < n]
        states = self._encoded([text for i in left for text in jobs[i].ids])
        for kind, settings in decoding_by_kind(self._decoding, self._model.tokens.bytes).items():
            for by_attention in (False, True):
                places = [i for i in left if jobs[i].kind == kind and jobs[i].by_attention == by_attention]
                for group in batches(_mixed_lengths([jobs[i] for i in places]), self._batch_tokens, paths):
                    batch = [places[i] for i in group]
                    rows = [jobs[i] for i in batch]
                    for i, found in zip(batch, self._decoded(rows, states, by_attention, settings), strict=True):
                        if kind != Kind.END:
                            # The sort is stable: texts stay in the order of likelihood, copies and invalid UTF-8 last.
                            found.sort(key=lambda text: is_unwanted(text, jobs[i].unwanted))
                            found = [without_broken(text) for text in found]
                        more = [text for text in found if text not in written[i]] or found
                        written[i] = [*written[i], *more][:n]
                        written[i] += written[i][-1:] * (n - len(written[i]))
                    self._on_progress(sum(row.ends_row for row in rows))
        return written

    def _decoded(
        self, rows: list[Job], states: dict[Ids, Tensor], by_attention: bool, settings: Decoding
    ) -> list[list[str]]:
        """Mix the states of pairs of texts, and decode the mixtures."""
        model = self._model
        alpha = torch.tensor([row.weights[0] for row in rows], dtype=torch.float64, device=model.engine.device)
        states_a, mask_a = padded([states[row.ids[0]] for row in rows])
        states_b, mask_b = padded([states[row.ids[1]] for row in rows])
        mixer = model.attention_mixing if by_attention else model.converter
        assert mixer is not None
        mixture: Mixture = mixer.mix(states_a, mask_a, states_b, mask_b, alpha)
        hypotheses = model.engine.decode(
            mixture.states,
            mixture.mask,
            settings,
            [row.seed for row in rows],
            [{token for text in row.ids for token in text} for row in rows],
            mixture.prior,
            mixture.lengths.tolist(),
        )
        return [model.tokens.texts([hypothesis.ids for hypothesis in found]) for found in hypotheses]

    def _cross(self, jobs: list[Job]) -> tuple[list[list[str]], list[Job]]:
        """Write the texts that need no decoding: the text itself at an end, the best crossovers in between.

        A job with fewer than n crossovers is tried again without the text of smallest weight, until two texts are left.

        Returns:
            The candidates of each job, and the jobs with the texts that are left, to decode if there are fewer than n.
        """
        jobs = list(jobs)
        written: list[list[str]] = [[] for _ in jobs]
        left = []
        for i, job in enumerate(jobs):
            if not job.by_attention or job.copies:
                continue
            if job.kind != Kind.END:
                left.append(i)
                continue
            written[i] = [job.texts[0] if job.weights[0] >= 0.5 else job.texts[1]]
            if self._decoding.n == 1:
                self._on_progress(job.ends_row)
        while left:
            for texts in sorted({len(jobs[i].texts) for i in left}):
                self._cross_equally_many(jobs, [i for i in left if len(jobs[i].texts) == texts], written)
            left = [i for i in left if len(written[i]) < self._decoding.n and len(jobs[i].texts) > 2]
            for i in left:
                jobs[i] = jobs[i].without_smallest_weight()
        return written, jobs

    def _cross_equally_many(self, jobs: list[Job], places: list[int], written: list[list[str]]) -> None:
        """Add the best crossovers of the jobs at `places`, which have the same number of texts."""
        model, n = self._model, self._decoding.n
        crossed = {i: CrossedTexts(jobs[i].texts, jobs[i].weights, model.tokens, jobs[i].seed) for i in places}
        places = [i for i in places if crossed[i].can_be_cut]
        if not places:
            return
        assert model.attention_mixing is not None
        paths = sequences_of(len(jobs[places[0]].texts))
        for group in batches([jobs[i].longest for i in places], self._batch_tokens, paths):
            batch = [places[i] for i in group]
            no_texts = model.attention_mixing.without_texts(len(batch))
            found = cross(model.engine, no_texts, [crossed[i] for i in batch], self._decoding)
            for i, texts in zip(batch, found, strict=True):
                new = [text for text in texts if text not in written[i]]
                written[i] = [*written[i], *new][:n]
                if len(written[i]) == n:
                    self._on_progress(jobs[i].ends_row)


def _mixed_lengths(pairs: list[Job]) -> list[int]:
    """Compute L̃ of Eq. 3 for each pair."""
    lengths_a, lengths_b = (torch.tensor([len(pair.ids[t]) for pair in pairs]) for t in (0, 1))
    return mixed_lengths(lengths_a, lengths_b, torch.tensor([pair.weights[0] for pair in pairs])).tolist()
