"""The model: any encoder-decoder, plus a length converter (§3.2 and §3.3 of the paper).

Two texts go in. The encoder reads each alone, the length converter stretches both state sequences to one common
length, the two are mixed by the ratio α, and the decoder writes the mixture as text:

    Hᵃ (Lᵃ×d) ─ converter ─ H̃ᵃ (L̃×d) ─┐
                                        ├─ α·H̃ᵃ + (1−α)·H̃ᵇ ─ decoder ─ p(y | xᵃ, xᵇ, α)
    Hᵇ (Lᵇ×d) ─ converter ─ H̃ᵇ (L̃×d) ─┘

α is the share of the *first* text everywhere: α = 1 gives a, α = 0 gives b.

Shapes: B pairs, L tokens of a text, L̃ tokens of the mixture, T tokens of a target, d the width of a state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linda.config import LindaConfig
from linda.errors import LindaError
from linda.sampled_softmax import PieceSample

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

IGNORED = -100  # a padded position of a target; cross-entropy passes it over

# α·Lᵃ + (1−α)·Lᵇ comes out a hair above a whole number for ratios such as 0.1·3: rounding that up would add a token.
_FLOAT_DUST = 1e-4


def mixed_lengths(lengths_a: Tensor, lengths_b: Tensor, alpha: Tensor) -> Tensor:
    """Eq. 3: L̃ = ⌈α·Lᵃ + (1−α)·Lᵇ⌉, at least 1. All (B,)."""
    alpha = alpha.double()
    length = alpha * lengths_a + (1 - alpha) * lengths_b
    return torch.ceil(length - _FLOAT_DUST).clamp(min=1).long()


class LengthConverter(nn.Module):
    """Stretches or shrinks a sequence of states to a given length by Gaussian attention on positions (§3.2).

    h̃ⱼ = Σₖ wₖʲ hₖ,   wʲ = softmaxₖ(aʲ),   aₖʲ = −(k − (L/L̃)·j)² / 2σ²,   k = 1…L, j = 1…L̃.

    σ is the one weight that LINDA adds to its base; it is kept positive by learning log σ.
    """

    def __init__(self, sigma: float = 0.4) -> None:
        super().__init__()
        self.log_sigma = nn.Parameter(torch.tensor(math.log(sigma)))

    @property
    def sigma(self) -> Tensor:
        return self.log_sigma.exp()

    def forward(self, states: Tensor, lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """states (B, L, d), lengths (B,), target_lengths (B,) → (B, max L̃, d); rows beyond a pair's L̃ are zero."""
        k = torch.arange(1, states.shape[1] + 1, device=states.device)  # (L,)
        j = torch.arange(1, int(target_lengths.max()) + 1, device=states.device)  # (L̃,)
        centre = (lengths / target_lengths)[:, None] * j  # (B, L̃): where position j of the mixture looks
        logits = -((k - centre[:, :, None]) ** 2) / (2 * self.sigma**2)  # (B, L̃, L)
        is_real = k <= lengths[:, None]  # (B, L)
        weights = logits.masked_fill(~is_real[:, None, :], -torch.inf).softmax(dim=-1)
        is_wanted = j <= target_lengths[:, None]  # (B, L̃)
        weights = weights * is_wanted[:, :, None]
        return torch.bmm(weights.to(states.dtype), states)

    def mix(
        self, states_a: Tensor, mask_a: Tensor, states_b: Tensor, mask_b: Tensor, alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """h̃ᵢ = α·h̃ᵃᵢ + (1−α)·h̃ᵇᵢ.  States (B, Lᵃ, d) and (B, Lᵇ, d), α (B,) → mixture and mask, (B, L̃, ·)."""
        lengths_a, lengths_b = mask_a.sum(1), mask_b.sum(1)
        lengths = mixed_lengths(lengths_a, lengths_b, alpha)  # (B,)
        share = alpha.to(states_a.dtype)[:, None, None]
        mixed = share * self(states_a, lengths_a, lengths) + (1 - share) * self(states_b, lengths_b, lengths)
        mask = torch.arange(mixed.shape[1], device=mixed.device) < lengths[:, None]
        return mixed, mask.long()


@dataclass
class LindaOutput:
    """What one minibatch of pairs costs. Sums over tokens, means over pairs, as in Eq. 5 and 6."""

    loss: Tensor  # Eq. 6: reconstruction + penalty
    reconstruction: Tensor  # Eq. 5
    penalty: Tensor  # λ/M ΣΣ‖h‖²
    log_p_a: Tensor  # (B,) log p(xᵃ | xᵃ, xᵇ, α)
    log_p_b: Tensor  # (B,) log p(xᵇ | xᵃ, xᵇ, α)
    loss_per_token: Tensor  # Eq. 5 divided by the tokens it sums over: the figure shown to people
    state_norm: Tensor  # mean ‖h‖ over real positions


class LindaModel(nn.Module):
    """An encoder-decoder of `transformers` that can also read two texts at once."""

    seq2seq: Any  # a PreTrainedModel; its families agree on their methods, but not by type
    tokenizer: Any  # a PreTrainedTokenizerBase, whose calls take what no signature says

    def __init__(self, config: LindaConfig, seq2seq: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__()
        self.config = config
        self.seq2seq = seq2seq
        self.tokenizer = tokenizer
        self.converter = LengthConverter()

    @classmethod
    def from_seq2seq(cls, base: str | Path, **settings: Any) -> LindaModel:
        """A new LINDA model around a checkpoint of `transformers`: a folder, or a name on the hub."""
        from linda.checkpoint import start_from_seq2seq

        return start_from_seq2seq(base, **settings)

    @classmethod
    def from_pretrained(
        cls, path: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> LindaModel:
        """A trained LINDA model: a folder written by `save_pretrained`, or the name of one on the hub."""
        from linda.checkpoint import load

        return load(path).to(device=device, dtype=dtype).eval()

    def save_pretrained(self, folder: str | Path, bits: int = 32) -> None:
        """Writes config, weights (safetensors, 32, 16 or 8 bits) and tokenizer: a folder is all one needs."""
        from linda.checkpoint import save

        save(self, Path(folder), bits)

    @property
    def device(self) -> torch.device:
        return self.converter.log_sigma.device

    def tokenize(self, texts: list[str], masked: bool = False) -> dict[str, Tensor]:
        """Texts → input_ids and attention_mask, (B, L), end marker included, padded on the right.

        Only a text that we masked ourselves may hold the mask token; in anybody else's it is plain characters.
        """
        batch = self.tokenizer(
            texts,
            padding=True,
            truncation=True,
            max_length=self.config.max_length,
            return_tensors="pt",
            return_token_type_ids=False,
            split_special_tokens=not masked,
        )
        return {name: batch[name].to(self.device) for name in ("input_ids", "attention_mask")}

    def detokenize(self, ids: Tensor | list[list[int]]) -> list[str]:
        return self.tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, L) → states (B, L, d)."""
        encoder = self.seq2seq.get_encoder()
        return encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    def log_likelihood(self, mixed: Tensor, mask: Tensor, targets: Tensor, sample: PieceSample | None = None) -> Tensor:
        """log p(y | xᵃ, xᵇ, α): the sum over tokens. Targets (B, T), padded with IGNORED → (B,).

        With a sample of the vocabulary, an estimate.
        """
        inputs = {
            "encoder_outputs": _as_encoder_output(mixed),
            "attention_mask": mask,
            "decoder_input_ids": self.seq2seq.prepare_decoder_input_ids_from_labels(labels=targets),
            "use_cache": False,
        }
        if sample is None:
            logits = self.seq2seq(**inputs).logits  # (B, T, vocabulary)
        else:
            states = self.seq2seq.base_model(**inputs).last_hidden_state  # (B, T, d)
            bias = self.seq2seq.final_logits_bias[0, sample.pieces] + sample.log_weights
            logits = F.linear(states, self.seq2seq.get_output_embeddings().weight[sample.pieces], bias)  # (B, T, n)
            targets = sample.columns[targets.clamp_min(0)].where(targets != IGNORED, IGNORED)
        losses = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
        return -losses.view_as(targets).sum(1)

    def forward(
        self,
        ids_a: Tensor,
        mask_a: Tensor,
        ids_b: Tensor,
        mask_b: Tensor,
        targets_a: Tensor,
        targets_b: Tensor,
        alpha: Tensor,
        generator: torch.Generator | None = None,
    ) -> LindaOutput:
        """Eq. 6 for B pairs. Inputs (masked words and all) (B, L), targets (unmasked) (B, T), α (B,).

        Mirrored (`config.mirrored`), each text is the first one once, and then the only target:
        −½·[log p(xᵃ | xᵃ, xᵇ, α) + log p(xᵇ | xᵇ, xᵃ, α)]. Its mean over α ~ Beta(2, 1), the uniform α weighted by
        itself, is Eq. 5's; but no work goes into a text of which next to nothing is in the mixture.
        """
        states_a, states_b = self.encode(ids_a, mask_a), self.encode(ids_b, mask_b)
        norms_a = states_a.float().square().sum(-1) * mask_a  # (B, L): ‖h‖², real positions only
        norms_b = states_b.float().square().sum(-1) * mask_b
        penalty = self.config.norm_penalty * (norms_a.sum(1) + norms_b.sum(1)).mean()

        if self.training:
            states_a, states_b = (self._noised(states, alpha, generator) for states in (states_a, states_b))
        first, second = (states_a, mask_a), (states_b, mask_b)
        mixture_a = mixture_b = self.converter.mix(*first, *second, alpha)
        share_a, share_b = alpha, 1 - alpha
        if self.config.mirrored:
            mixture_b = self.converter.mix(*second, *first, alpha)
            share_a = share_b = torch.full_like(alpha, 0.5)
        sample = self._piece_sample(targets_a, targets_b, generator) if self.training else None
        log_p_a = self.log_likelihood(*mixture_a, targets_a, sample)
        log_p_b = self.log_likelihood(*mixture_b, targets_b, sample)
        per_pair = -(share_a * log_p_a + share_b * log_p_b)  # Eq. 5
        tokens = share_a * (targets_a != IGNORED).sum(1) + share_b * (targets_b != IGNORED).sum(1)
        return LindaOutput(
            loss=per_pair.mean() + penalty,
            reconstruction=per_pair.mean(),
            penalty=penalty,
            log_p_a=log_p_a,
            log_p_b=log_p_b,
            loss_per_token=per_pair.detach().sum() / tokens.sum(),
            state_norm=(norms_a.detach().sqrt().sum() + norms_b.detach().sqrt().sum()) / (mask_a.sum() + mask_b.sum()),
        )

    def _noised(self, states: Tensor, alpha: Tensor, generator: torch.Generator | None) -> Tensor:
        """Zero-mean Gaussian noise on every state (B, L, d): the paper's fixed σ, plus 4α(1−α)·`middle_noise`·‖h‖.

        The fixed 0.001 is nothing beside the states of most encoders: half-way between two texts the decoder can still
        read both, and copies one or the other. Noise of several times the state's norm hides the details there, so that
        it must lean on what it knows of language; at the ends, where it is to copy, nothing is hidden.
        """
        middle = (self.config.middle_noise * 4 * alpha * (1 - alpha)).to(states.dtype)[:, None, None]
        scale = self.config.noise + middle * states.detach().square().mean(-1, True).sqrt()
        noise = torch.randn(states.shape, generator=generator, device=states.device, dtype=states.dtype)
        return states + scale * noise

    def _piece_sample(
        self, targets_a: Tensor, targets_b: Tensor, generator: torch.Generator | None
    ) -> PieceSample | None:
        size, vocabulary = self.config.softmax_sample, self.config.base["vocab_size"]
        if not 0 < size < vocabulary:
            return None
        if not hasattr(self.seq2seq, "final_logits_bias"):
            raise LindaError(
                f"softmax_sample={size} does not work for {self.config.base['model_type']!r}: only the family of "
                "BART and Marian computes its logits from a plain table of weights; give 0"
            )
        own = torch.cat([targets_a.flatten(), targets_b.flatten()])
        return PieceSample.draw(own[own != IGNORED], vocabulary, size, generator)

    @torch.inference_mode()
    def generate(
        self,
        states: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        texts: tuple[list[str], list[str]] | None = None,
        alpha: float = 0.5,
        **decoding: Any,
    ) -> Tensor:
        """Token ids (B, T) by `transformers`' own `generate`: from mixed states and mask, or from texts a and b.

        The reference that the engines are held to. Any argument of `generate` is passed on; 4 beams by default.
        """
        from linda.decoding import Decoding

        if (states is None) == (texts is None):
            raise LindaError("generate takes either mixed states with their mask, or texts=(a, b)")
        if texts is not None:
            states, mask = self.mix_texts(*texts, alpha=alpha)
        assert states is not None
        assert mask is not None
        # The length limit grows with L̃: the longest row's serves the whole batch.
        settings = Decoding().generate_kwargs(self.seq2seq, int(mask.sum(1).max())) | decoding
        return self.seq2seq.generate(encoder_outputs=_as_encoder_output(states), attention_mask=mask, **settings)

    def mix_texts(self, a: list[str], b: list[str], alpha: float | list[float]) -> tuple[Tensor, Tensor]:
        """Texts → mixed states and mask, (B, L̃, ·)."""
        first, second = self.tokenize(a), self.tokenize(b)
        ratios = torch.as_tensor(alpha, dtype=torch.float64, device=self.device).expand(len(a))
        return self.converter.mix(
            self.encode(**first),
            first["attention_mask"],
            self.encode(**second),
            second["attention_mask"],
            ratios,
        )


def _as_encoder_output(states: Tensor) -> Any:
    """States (B, L̃, d) in the form in which a decoder of `transformers` takes those of its own encoder."""
    from transformers.modeling_outputs import BaseModelOutput

    return BaseModelOutput(last_hidden_state=states)  # type: ignore[arg-type]  # its FloatTensor is any Tensor
