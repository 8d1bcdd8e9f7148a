"""One file per way to compute a model: the encoder's states of a text, and the texts that are written from states.

`int8` computes with 8-bit numbers on any CPU, for the families it knows; `torch` runs any model on any device. "auto"
is the first of them that can run. Their texts are mostly the same, but not always: 8 bits are not 32.
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
    from linda.engines.forced import Reading
    from linda.model import LindaModel

# From the fastest to the slowest: "auto" takes the first that runs here.
NAMES = ("int8", "torch")


CPU_BATCH_TOKENS = 4096  # measured: docs/explanation/decoding.md


class Engine(Protocol):
    name: str

    @property
    def device(self) -> torch.device: ...

    @property
    def batch_tokens(self) -> int:
        """Tokens (rows × paths × length) that it takes at once where the caller does not say."""
        ...

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """ids (B, L) and mask (B, L) become the encoder's states (B, L, d)."""
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
        """Texts from states.

        A row's texts depend on its own arguments alone, never on the other rows. Samples come in the order in which
        they are drawn: the first one is the same whatever n.

        Args:
            states: what the decoder attends to, (B, S, d).
            mask: 1 where a state is real, (B, S).
            decoding: how a text is chosen.
            seeds: one per row, for sampling.
            pieces: per row the token ids of the texts that it was mixed from, for an engine that writes from a short
                list of the vocabulary; others ignore them.
            prior: is added to the attention scores of each state, in every layer and head, (B, S); None adds nothing.
            lengths: per row the length wanted, L̃, which limits that of the text; None: the number of its states.

        Returns:
            `decoding.n` texts per row, the best first.

        Example:
            engine.decode(states, mask, Decoding(beams=4), seeds=[0] * len(states))[0][0].ids
        """
        ...

    def read(
        self,
        states: torch.Tensor,
        mask: torch.Tensor,
        sequences: Sequence[Sequence[Sequence[int]]],
        wanted: Sequence[Sequence[int]],
        prior: torch.Tensor | None = None,
    ) -> Reading:
        """Forced decoding: how likely tokens are after each position of given sequences.

        Args:
            states: what the decoder attends to, (B, S, d).
            mask: 1 where a state is real, (B, S).
            sequences: per row, token sequences without start and end markers.
            wanted: per row, the tokens whose log-probability is wanted; all tokens of the row's sequences are known
                to an engine that chooses from a short list.
            prior: as for `decode`.

        Returns:
            The log-probabilities (`log_p`), and a way to read on after any prefix (`read_on`).
        """
        ...


def choose(name: str, base: dict[str, Any], device: torch.device) -> str:
    """The engine that "auto" stands for on this device, or the one asked for by name if it can run there.

    base: the configuration of the encoder-decoder, as `transformers` writes it.
    """
    if name not in ("auto", *NAMES):
        raise LindaError(f"engine {name!r} is not known: take one of auto, {', '.join(NAMES)}")
    if name == "torch":
        return name
    from linda.engines.int8_engine import Int8Engine

    why_not = Int8Engine.why_not(base, device)
    if why_not is None:
        return "int8"
    if name == "int8":
        raise LindaError(f"the engine int8 cannot run here: {why_not}; take the one that always does (--engine torch)")
    return "torch"


def load(name: str, model: LindaModel) -> Engine:
    """An engine for a model in memory. The torch engine sees later changes of its weights, the int8 engine does not."""
    if choose(name, model.config.base, model.device) == "int8":
        from linda.engines.int8_engine import Int8Engine

        return Int8Engine(model.config.base, model.state_dict())
    from linda.engines.torch_engine import TorchEngine

    return TorchEngine(model.seq2seq)


def load_folder(name: str, folder: Path, config: LindaConfig, device: torch.device, precision: str = "auto") -> Engine:
    """An engine for a model on disk; only the torch engine needs `transformers`, which takes seconds to import."""
    from linda.engines.gpu import find_precision
    from linda.model.checkpoint import CONFIG_FILE, WEIGHTS_FILE, load_seq2seq

    dtype = find_precision(precision, device)
    if precision != "auto":
        if name == "int8":
            raise LindaError(f"precision={precision!r} is for the engine torch; int8 computes in 8 bits")
        name = "torch"
    if choose(name, config.base, device) == "int8":
        from linda.engines.int8_engine import Int8Engine
        from linda.model.weights import load_weights

        path = folder / WEIGHTS_FILE
        weights = load_weights(path, "seq2seq.")
        try:
            return Int8Engine(config.base, weights)
        except (KeyError, RuntimeError) as error:  # names or shapes that do not fit the configuration
            raise LindaError(f"{path} does not fit {CONFIG_FILE}: {str(error).splitlines()[-1].strip()}") from error
    from linda.engines.torch_engine import TorchEngine

    return TorchEngine(load_seq2seq(folder, config).to(device, dtype))
