"""Inference engines: they encode texts, and decode token ids from encoder states.

`int8` computes with 8-bit integers on any CPU, for the model families it supports. `torch` runs any model on any
device. "auto" selects the first engine that can run. Both mostly generate the same text; a word may differ, because
8-bit numbers are less precise.

decoding      all settings of decoding
search        beam search, greedy decoding and sampling, for both engines
forced        scores of given texts (forced decoding), for both engines
torch_engine  the engine for any model and device
paths         its beams, which share keys and values
gpu           half precision, and the batch size that fits in memory
int8_engine   the fast engine for CPUs
bart_family   its network
attention     its attention
linear        its linear layers
quantized     8-bit weights and activations
layout        positions of the tokens of a batch in a padded tensor
int8_paths    its beams, whose cache is a tree
short_list    its output layer over part of the vocabulary
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from linda.errors import LindaError

if TYPE_CHECKING:
    import torch

    from linda.config import LindaConfig
    from linda.engines.decoding import Decoding, Hypothesis
    from linda.engines.forced import ForcedScores
    from linda.model import LindaModel

# Fastest first: "auto" selects the first that can run.
NAMES = ("int8", "torch")


CPU_BATCH_TOKENS = 4096  # measured: docs/explanation/decoding.md


class Engine(Protocol):
    """The interface of an engine."""

    name: str

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        ...

    @property
    def batch_tokens(self) -> int:
        """Default number of tokens (rows × paths × length) per batch."""
        ...

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Encode ids (B, L) with mask (B, L) to states (B, L, d)."""
        ...

    def decode(
        self,
        states: torch.Tensor,
        mask: torch.Tensor,
        decoding: Decoding,
        seeds: Sequence[int],
        pieces: Sequence[Collection[int]] | None = None,
        prior: torch.Tensor | None = None,
        lengths: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Decode texts from states.

        The texts of a row depend only on the arguments of that row, never on other rows in the batch. Samples are
        returned in the order in which they are drawn, so the first sample does not depend on `n`.

        Args:
            states: Encoder states that the decoder attends to, (B, S, d).
            mask: 1 for real states, 0 for padding, (B, S).
            decoding: Decoding settings.
            seeds: One seed per row, for sampling.
            pieces: Token ids of the two source texts of each row, for engines that restrict the output vocabulary;
                ignored by others.
            prior: Added to the attention scores of each state in every layer and head, (B, S); None adds nothing.
            lengths: Target length L̃ of each row, which limits the output length; defaults to the number of states.

        Returns:
            `decoding.n` hypotheses per row, best first.

        Example:
            engine.decode(states, mask, Decoding(beams=4), seeds=[0] * len(states))[0][0].ids
        """
        ...

    def score(
        self,
        states: torch.Tensor,
        mask: torch.Tensor,
        sequences: Sequence[Sequence[Sequence[int]]],
        wanted: Sequence[Sequence[int]],
        prior: torch.Tensor | None = None,
    ) -> ForcedScores:
        """Score given sequences (forced decoding): log-probabilities of tokens after each position.

        Args:
            states: Encoder states that the decoder attends to, (B, S, d).
            mask: 1 for real states, 0 for padding, (B, S).
            sequences: Token sequences of each row, without start and end markers.
            wanted: Tokens of each row whose log-probability to return. An engine that restricts the output vocabulary
                of a row adds them to it.
            prior: As in `decode`.

        Returns:
            The log-probabilities (`log_p`), with a method to score other continuations of a prefix (`score_branches`).

        Example:
            engine.score(states, mask, sequences=[[[5, 6, 7]]], wanted=[[6, 7]]).log_p[0][0]  # (4, 2)
        """
        ...


def choose(name: str, base: dict[str, Any], device: torch.device) -> str:
    """Return the engine for "auto" on this device, or the named engine if it can run there.

    Args:
        name: "auto" or the name of an engine.
        base: Configuration of the encoder-decoder, in the format of `transformers`.
        device: Device of the model.
    """
    if name not in ("auto", *NAMES):
        raise LindaError(f"unknown engine {name!r}; choose one of auto, {', '.join(NAMES)}")
    if name == "torch":
        return name
    from linda.engines.int8_engine import Int8Engine

    why_not = Int8Engine.why_not(base, device)
    if why_not is None:
        return "int8"
    if name == "int8":
        raise LindaError(f"the int8 engine cannot run here: {why_not}; use the torch engine (--engine torch)")
    return "torch"


def load(name: str, model: LindaModel) -> Engine:
    """Create an engine for a model in memory. Later changes of the weights affect only the torch engine."""
    if choose(name, model.config.base, model.device) == "int8":
        from linda.engines.int8_engine import Int8Engine

        return Int8Engine(model.config.base, model.state_dict())
    from linda.engines.torch_engine import TorchEngine

    return TorchEngine(model.seq2seq)


def load_folder(name: str, folder: Path, config: LindaConfig, device: torch.device, precision: str = "auto") -> Engine:
    """Create an engine for a model on disk. Only the torch engine imports `transformers`, which takes seconds."""
    from linda.engines.gpu import find_precision
    from linda.model.checkpoint import CONFIG_FILE, WEIGHTS_FILE, load_seq2seq

    dtype = find_precision(precision, device)
    if precision != "auto":
        if name == "int8":
            raise LindaError(f"precision={precision!r} applies to the torch engine; int8 always computes in 8 bits")
        name = "torch"
    if choose(name, config.base, device) == "int8":
        from linda.engines.int8_engine import Int8Engine
        from linda.model.weights import load_weights

        path = folder / WEIGHTS_FILE
        weights = load_weights(path, "seq2seq.")
        try:
            return Int8Engine(config.base, weights)
        except (KeyError, RuntimeError) as error:  # names or shapes that do not match the configuration
            raise LindaError(f"{path} does not match {CONFIG_FILE}: {str(error).splitlines()[-1].strip()}") from error
    from linda.engines.torch_engine import TorchEngine

    return TorchEngine(load_seq2seq(folder, config).to(device, dtype))
