"""The engine for any model and device: PyTorch, in the precision of the model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from linda.engines import CPU_BATCH_TOKENS
from linda.engines.attention import attention_bias
from linda.engines.decoding import Decoding, Frame, Hypothesis
from linda.engines.forced import Branch
from linda.engines.gpu import fitting_tokens
from linda.engines.paths import TorchPaths, shared_copy, with_path_attention
from linda.engines.search import WHOLE, Vocabulary, decode

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TorchEngine:
    """Decodes with the model's own layers and weights; later changes of the weights take effect."""

    name = "torch"

    def __init__(self, seq2seq: PreTrainedModel) -> None:
        self._encoder = shared_copy(seq2seq.get_encoder())
        self._decoder = with_path_attention(seq2seq)
        self._scorer = shared_copy(seq2seq)
        self._frame = Frame.of(seq2seq)
        self.batch_tokens = CPU_BATCH_TOKENS
        if self.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            self.batch_tokens = fitting_tokens(seq2seq.config.to_dict(), free, seq2seq.dtype.itemsize)

    @property
    def device(self) -> torch.device:
        return self._decoder.device

    @torch.inference_mode()
    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = self._encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return states

    @torch.inference_mode()
    def decode(
        self,
        states: Tensor,
        mask: Tensor,
        decoding: Decoding,
        seeds: Sequence[int],
        pieces: Sequence[Collection[int]] | None = None,
        prior: Tensor | None = None,
        lengths: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        try:
            return decode(self._start_paths, states, mask, self._frame, decoding, seeds, prior, lengths)
        except torch.OutOfMemoryError:
            # Rows are independent, so two halves give the same texts. Later batches are smaller, unless the caller
            # sets their size.
            half = len(states) // 2
            if half == 0:
                raise
            self.batch_tokens = max(1, self.batch_tokens // 2)
        halves = (slice(half), slice(half, None))
        return [
            texts
            for rows in halves
            for texts in self.decode(
                states[rows],
                mask[rows],
                decoding,
                seeds[rows],
                prior=None if prior is None else prior[rows],
                lengths=None if lengths is None else lengths[rows],
            )
        ]

    @torch.inference_mode()
    def score(
        self,
        states: Tensor,
        mask: Tensor,
        sequences: Sequence[Sequence[Sequence[int]]],
        wanted: Sequence[Sequence[int]],
        prior: Tensor | None = None,
    ) -> _TorchScores:
        states = states.to(self._scorer.dtype)
        bias = attention_bias(mask, prior).clamp_min(torch.finfo(states.dtype).min).to(states.dtype)
        return _TorchScores(self._scorer, self._frame, states, mask, bias, sequences, wanted)

    def _start_paths(
        self, states: Tensor, bias: Tensor, *, copies: int, beams: int, longest: int
    ) -> tuple[TorchPaths, Vocabulary]:
        return TorchPaths(self._decoder, states, bias, slots=beams, capacity=longest), WHOLE


class _TorchScores:
    """Scores computed by the model itself. There is no cache: a branch is computed together with its prefix."""

    def __init__(
        self,
        model: PreTrainedModel,
        frame: Frame,
        states: Tensor,
        mask: Tensor,
        bias: Tensor,
        sequences: Sequence[Sequence[Sequence[int]]],
        wanted: Sequence[Sequence[int]],
    ) -> None:
        self._model, self._frame = model, frame
        # Rows are computed without padding, so that they do not depend on other rows, to the last bit.
        self._states = [row[real.bool()] for row, real in zip(states, mask, strict=True)]
        self._bias = [row[real.bool()] for row, real in zip(bias, mask, strict=True)]
        self._sequences, self._wanted = sequences, wanted
        self.log_p = self._score(sequences)

    @torch.inference_mode()
    def score_branches(self, branches: Sequence[Sequence[Branch]]) -> list[list[Tensor]]:
        whole = [
            [[*self._sequences[row][branch.sequence][: branch.length], *branch.tokens] for branch in found]
            for row, found in enumerate(branches)
        ]
        read = self._score(whole)
        return [
            [log_p[branch.length + 1 :] for log_p, branch in zip(row, found, strict=True)]
            for row, found in zip(read, branches, strict=True)
        ]

    def _score(self, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[Tensor]]:
        found: list[list[Tensor]] = []
        prompt = self._frame.prompt
        for row, (row_sequences, tokens) in enumerate(zip(sequences, self._wanted, strict=True)):
            if not row_sequences:
                found.append([])
                continue
            prompted = [torch.tensor([*prompt, *sequence], device=self._model.device) for sequence in row_sequences]
            inputs = pad_sequence(prompted, batch_first=True, padding_value=self._frame.pad)  # (p, T)
            logits = self._model(
                encoder_outputs=(self._states[row].expand(len(inputs), -1, -1),),
                attention_mask=self._bias[row].expand(len(inputs), 1, 1, -1),
                decoder_input_ids=inputs,
                use_cache=False,
            ).logits.float()
            logits[:, :, self._frame.banned] = -torch.inf
            chosen = torch.tensor(tokens, device=logits.device)
            log_p = logits.log_softmax(dim=-1)[:, len(prompt) - 1 :, chosen].cpu()
            found.append([path[: len(sequence) + 1] for path, sequence in zip(log_p, row_sequences, strict=True)])
        return found
