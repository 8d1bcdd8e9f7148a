"""The model: any encoder-decoder, plus a length converter (§3.2 and §3.3 of the paper).

The encoder processes two texts separately, the length converter converts both state sequences to the same length, the
two are mixed with the ratio α, and the decoder generates text from the mixture:

    Hᵃ (Lᵃ×d) ─ converter ─ H̃ᵃ (L̃×d) ─┐
                                        ├─ α·H̃ᵃ + (1−α)·H̃ᵇ ─ decoder ─ p(y | xᵃ, xᵇ, α)
    Hᵇ (Lᵇ×d) ─ converter ─ H̃ᵇ (L̃×d) ─┘

α is the share of the *first* text everywhere: α = 1 gives a, α = 0 gives b.

Shapes: B pairs, L tokens of a text, L̃ tokens of the mixture, T tokens of a target, d the width of a state.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linda.config import LindaConfig
from linda.errors import LindaError
from linda.files.paths import checked_path
from linda.model import checkpoint
from linda.model.attention_mixing import AttentionMixing
from linda.model.length_converter import LengthConverter
from linda.model.loss import CHOICE_WEIGHT, IGNORED, LindaOutput, StateNorms, choice_loss, linda_loss
from linda.model.pretrained import SEQ2SEQ, load_pretrained
from linda.model.sampled_softmax import PieceSample

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class LindaModel(nn.Module):
    """An encoder-decoder of `transformers` with two texts as its input.

    Example:
        >>> model = LindaModel.from_seq2seq("Helsinki-NLP/opus-mt-fr-en")
        >>> mixed, mask = model.mix_texts(["One text."], ["Another text."], alpha=0.5)
    """

    seq2seq: Any  # a PreTrainedModel, whose families share methods but not types
    tokenizer: Any  # a PreTrainedTokenizerBase, whose signatures are incomplete

    def __init__(self, config: LindaConfig, seq2seq: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__()
        self.config = config
        self.seq2seq = seq2seq
        self.tokenizer = tokenizer
        self.converter = LengthConverter()
        self.attention_mixing: AttentionMixing | None = None
        if config.mixing == "attention":
            self.mix_by_attention()

    def mix_by_attention(self) -> None:
        """Enable mixing by attention (`attention_mixing`), in addition to the paper's mixing of states."""
        self.config.mixing = "attention"
        if self.attention_mixing is None:
            self.attention_mixing = AttentionMixing(self.config.base["d_model"]).to(self.device)

    @classmethod
    def from_seq2seq(cls, base: str | Path, **settings: Any) -> LindaModel:
        """Create a LINDA model from a `transformers` checkpoint: a folder, or a name on the hub.

        It has the weights and the tokenizer of the base, a new length converter, and a new mask token if the base has
        none. `settings` are fields of `LindaConfig`.
        """
        failure = f"{base} cannot be loaded as a base"
        # Half precision cannot be trained.
        seq2seq, tokenizer = load_pretrained(SEQ2SEQ, base, failure, quiet=False, dtype=torch.float32)
        _check_padding(tokenizer)
        mask_token = _ensure_mask_token(tokenizer, seq2seq)
        described = seq2seq.config.to_dict()
        described.pop("_name_or_path", None)  # the path of the base is not part of the model
        if (first := _first_token(seq2seq, tokenizer)) is not None:
            seq2seq.generation_config.forced_bos_token_id = described["forced_bos_token_id"] = first
        return cls(LindaConfig(base=described, mask_token=mask_token, **settings), seq2seq, tokenizer)

    @classmethod
    def from_pretrained(
        cls, path: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
    ) -> LindaModel:
        """Load a trained LINDA model: a folder written by `save_pretrained`, or a name on the hub.

        Args:
            path: Folder or hub name.
            device: Device to load the model to.
            dtype: Type of the weights; None for 32-bit floats.

        Returns:
            The model, in evaluation mode.

        Example:
            >>> model = LindaModel.from_pretrained("my-model", device="cuda")
        """
        folder = checkpoint.local_folder(path)
        config = checkpoint.load_config(folder)
        tokenizer = checkpoint.load_tokenizer(folder)
        _check_padding(tokenizer)
        model = cls(config, checkpoint.load_seq2seq(folder, config), tokenizer)
        model.converter = checkpoint.load_converter(folder)
        model.attention_mixing = checkpoint.load_attention_mixing(folder, config)
        return model.to(device=device, dtype=dtype).eval()

    def save_pretrained(self, folder: str | Path, bits: int = 32) -> None:
        """Write a folder with config, weights (safetensors with 32, 16 or 8 bits) and tokenizer."""
        checkpoint.save(checked_path(folder), self.config, self.state_dict(), self.tokenizer, bits)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return self.converter.log_sigma.device

    def tokenize(self, texts: list[str], masked: bool = False) -> dict[str, Tensor]:
        """Tokenize texts to input_ids and attention_mask, (B, L), end marker included, padded on the right.

        The mask token is recognized only with `masked`; otherwise special tokens are tokenized as plain text.
        """
        batch = self.tokenizer(
            texts,
            padding=True,
            truncation=True,
            max_length=self.config.window,
            return_tensors="pt",
            return_token_type_ids=False,
            split_special_tokens=not masked,
        )
        return {name: batch[name].to(self.device) for name in ("input_ids", "attention_mask")}

    def detokenize(self, ids: Tensor | list[list[int]]) -> list[str]:
        """Decode token ids to texts, without special tokens."""
        return self.tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode (B, L) to states (B, L, d)."""
        encoder = self.seq2seq.get_encoder()
        return encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    def log_likelihood(
        self,
        mixed: Tensor,
        mask: Tensor,
        targets: Tensor,
        sample: PieceSample | None = None,
        prior: Tensor | None = None,
    ) -> Tensor:
        """Return log p(y | xᵃ, xᵇ, α), the sum over tokens, (B,).

        Args:
            mixed: States that the decoder attends to, (B, S, d).
            mask: 1 for real states, (B, S).
            targets: Token ids, (B, T), padded with IGNORED.
            sample: Sample of the vocabulary, to estimate the softmax.
            prior: Added to the attention scores of the states, (B, S).
        """
        if prior is not None:
            # A four-dimensional mask is added to the scores unchanged.
            mask = prior.masked_fill(mask == 0, -torch.inf).to(mixed.dtype)[:, None, None]  # (B, 1, 1, S)
        inputs = {
            "encoder_outputs": as_encoder_output(mixed),
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

    def forward(self, **batch: Any) -> LindaOutput:
        """Compute the loss of plain texts (`text_loss`), middles (`middle_loss`) or pairs (`pair_loss`)."""
        if "texts" in batch:
            return self.text_loss(**batch)
        return self.middle_loss(**batch) if "targets" in batch else self.pair_loss(**batch)

    def middle_loss(
        self,
        ids_a: Tensor,
        mask_a: Tensor,
        ids_b: Tensor,
        mask_b: Tensor,
        pair: Tensor,
        targets: Tensor,
        alpha: Tensor,
        row: Tensor,
        weight: Tensor,
        generator: torch.Generator | None = None,
    ) -> LindaOutput:
        """Return the loss of middles: the best targets, mixed by attention, plus the choice among all candidates.

        Args:
            ids_a: First texts of P pairs, (P, L).
            mask_a: Mask of the first texts, (P, L).
            ids_b: Second texts, (P, L).
            mask_b: Mask of the second texts, (P, L).
            pair: Pair of each target, (R,).
            targets: Texts between those of their pair, (R, T), padded with IGNORED.
            alpha: Share of a in each target, (R,).
            row: Targets with the same number are candidates for the same pair and ratio, (R,).
            weight: Weight of each target among the candidates of its row, (R,).
            generator: Random generator of the sampled softmax.

        Returns:
            The loss, with its parts.

        Example:
            >>> a, b = model.tokenize(["The film was great."]), model.tokenize(["The food was cold."])
            >>> targets = as_targets(**model.tokenize(["The film was cold.", "The food was great."]))
            >>> pair, row = torch.tensor([0, 0]), torch.tensor([0, 0])
            >>> alpha, weight = torch.tensor([0.5, 0.5]), torch.tensor([0.8, 0.2])
            >>> model.middle_loss(*a.values(), *b.values(), pair, targets, alpha, row, weight).loss.backward()
        """
        assert self.attention_mixing is not None
        states_a, states_b = self.encode(ids_a, mask_a), self.encode(ids_b, mask_b)
        norms = StateNorms.of(states_a, mask_a, states_b, mask_b)
        is_best = torch.cat([row.new_ones(1), row.diff()]).bool()  # the first candidate of each row
        wanted, of_pair, ratios = targets[is_best], pair[is_best], alpha[is_best]
        mixture = self.attention_mixing.mix(
            states_a[of_pair], mask_a[of_pair], states_b[of_pair], mask_b[of_pair], ratios
        )
        sample = self._piece_sample(targets, generator) if self.training else None
        log_p = self.log_likelihood(mixture.states, mixture.mask, wanted, sample, mixture.prior)
        reconstruction = -log_p.mean()
        choice = choice_loss(self._log_prior(targets, sample), targets, row, weight) if len(row) > len(wanted) else None
        penalty = norms.penalty(self.config.norm_penalty)
        return LindaOutput(
            loss=reconstruction + penalty + (0 if choice is None else CHOICE_WEIGHT * choice),
            reconstruction=reconstruction,
            penalty=penalty,
            loss_per_token=-log_p.detach().sum() / (wanted != IGNORED).sum(),
            state_norm=norms.mean,
            choice=choice,
        )

    def text_loss(self, texts: Tensor, generator: torch.Generator | None = None) -> LindaOutput:
        """Return the language-modelling loss −log p(x) of plain texts (B, T), padded with IGNORED."""
        log_p = self._log_prior(texts, self._piece_sample(texts, generator) if self.training else None)
        loss = -log_p.mean()
        zero = torch.zeros_like(loss)
        return LindaOutput(
            loss=loss,
            reconstruction=loss,
            penalty=zero,
            loss_per_token=-log_p.detach().sum() / (texts != IGNORED).sum(),
            state_norm=zero,
        )

    def _log_prior(self, targets: Tensor, sample: PieceSample | None) -> Tensor:
        """Return log p(y) of texts (R, T) without a source text, (R,)."""
        assert self.attention_mixing is not None
        empty = self.attention_mixing.without_texts(len(targets))
        return self.log_likelihood(empty.states, empty.mask, targets, sample)

    def pair_loss(
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
        """Compute Eq. 6 for B pairs.

        With `config.mirrored`, each pair is mixed in both orders, with the first text as the only target (see
        `linda.model.loss`).

        Args:
            ids_a: First texts, with masked words, (B, L).
            mask_a: Mask of the first texts, (B, L).
            ids_b: Second texts, with masked words, (B, L).
            mask_b: Mask of the second texts, (B, L).
            targets_a: First texts, unmasked, (B, T), padded with IGNORED.
            targets_b: Second texts, unmasked, (B, T), padded with IGNORED.
            alpha: Share of a, (B,).
            generator: Random generator of the noise and the sampled softmax.

        Returns:
            The loss, with its parts.

        Example:
            >>> a, b = model.tokenize(["The film was great."]), model.tokenize(["The food was cold."])
            >>> targets, alpha = (as_targets(**a), as_targets(**b)), torch.tensor([0.5])
            >>> model.pair_loss(*a.values(), *b.values(), *targets, alpha).loss.backward()
        """
        states_a, states_b = self.encode(ids_a, mask_a), self.encode(ids_b, mask_b)
        norms = StateNorms.of(states_a, mask_a, states_b, mask_b)
        if self.training:
            states_a, states_b = (self._noised(states, alpha, generator) for states in (states_a, states_b))
        first, second = (states_a, mask_a), (states_b, mask_b)
        mixture_a = mixture_b = self.converter.mix(*first, *second, alpha)
        if self.config.mirrored:
            mixture_b = self.converter.mix(*second, *first, alpha)
        targets = torch.cat([targets_a.flatten(), targets_b.flatten()])
        sample = self._piece_sample(targets, generator) if self.training else None
        return linda_loss(
            self.log_likelihood(mixture_a.states, mixture_a.mask, targets_a, sample),
            self.log_likelihood(mixture_b.states, mixture_b.mask, targets_b, sample),
            targets_a,
            targets_b,
            alpha,
            norms,
            mirrored=self.config.mirrored,
            norm_penalty=self.config.norm_penalty,
        )

    def _noised(self, states: Tensor, alpha: Tensor, generator: torch.Generator | None) -> Tensor:
        """Add zero-mean Gaussian noise to states (B, L, d): the paper's fixed σ, plus 4α(1−α)·`middle_noise`·‖h‖.

        The paper's σ of 0.001 is negligible compared to the states of most encoders: at α = ½ the decoder can still
        recover both texts, and copies one of them. Noise of several times the norm of the state prevents this. It falls
        to 0 at the ends, where the decoder should copy.
        """
        middle = (self.config.middle_noise * 4 * alpha * (1 - alpha)).to(states.dtype)[:, None, None]
        scale = self.config.noise + middle * states.detach().square().mean(-1, True).sqrt()
        noise = torch.randn(states.shape, generator=generator, device=states.device, dtype=states.dtype)
        return states + scale * noise

    def _piece_sample(self, targets: Tensor, generator: torch.Generator | None) -> PieceSample | None:
        size, vocabulary = self.config.softmax_sample, self.config.base["vocab_size"]
        if not 0 < size < vocabulary:
            return None
        if not hasattr(self.seq2seq, "final_logits_bias"):
            raise LindaError(
                f"softmax_sample={size} is not supported for {self.config.base['model_type']!r}, only for the BART "
                "family (BART, mBART, Marian, Pegasus); give 0"
            )
        return PieceSample.draw(targets[targets != IGNORED], vocabulary, size, generator)

    def mix_texts(self, a: list[str], b: list[str], alpha: float | list[float]) -> tuple[Tensor, Tensor]:
        """Mix texts by Eq. 4; return the mixed states (B, L̃, d) and their mask (B, L̃)."""
        first, second = self.tokenize(a), self.tokenize(b)
        ratios = torch.as_tensor(alpha, dtype=torch.float64, device=self.device).expand(len(a))
        masks = first["attention_mask"], second["attention_mask"]
        mixture = self.converter.mix(self.encode(**first), masks[0], self.encode(**second), masks[1], ratios)
        return mixture.states, mixture.mask


def as_encoder_output(states: Tensor) -> Any:
    """Wrap states (B, L̃, d) as the encoder output that a decoder of `transformers` expects."""
    from transformers.modeling_outputs import BaseModelOutput

    return BaseModelOutput(last_hidden_state=states)  # type: ignore[arg-type]  # its FloatTensor is any Tensor


def _check_padding(tokenizer: Any) -> None:
    if tokenizer.pad_token_id is None:
        raise LindaError("the tokenizer has no padding token; set pad_token in its tokenizer_config.json")


def _first_token(seq2seq: Any, tokenizer: Any) -> int | None:
    """Return the token that begins every text: `forced_bos_token_id` of the base, or the tokenizer's start token."""
    forced: int | None = seq2seq.generation_config.forced_bos_token_id
    ids = tokenizer("")["input_ids"]  # BART: <s> and the end marker; others: only the end marker
    return ids[0] if forced is None and len(ids) > 1 else forced


def _ensure_mask_token(tokenizer: Any, seq2seq: Any) -> str:
    """Return the mask token of the base (BART), a sentinel (T5) or a new token (others)."""
    if tokenizer.mask_token is not None:
        return str(tokenizer.mask_token)
    if "<extra_id_0>" in tokenizer.get_vocab():
        return "<extra_id_0>"
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    if len(tokenizer) > seq2seq.get_input_embeddings().num_embeddings:
        seq2seq.resize_token_embeddings(len(tokenizer))
    return "<mask>"
