"""Validation during training: how well the model interpolates between held-out sentences."""

from __future__ import annotations

from typing import Any

import torch

from linda.engines.decoding import generate
from linda.measures import unigram_precision
from linda.model import LindaModel
from linda.model.batching import by_length
from linda.model.loss import IGNORED, as_targets
from linda.training.middle_batches import MiddlePair, middle_batch
from linda.training.pair_batches import Tokenizer

RATIOS = (0.0, 0.25, 0.5, 0.75, 1.0)
_BATCH = 32
_MIDDLES_BATCH = 4  # pairs: each has about two dozen candidates, scored with the full softmax


def validate(model: LindaModel, sentences: list[str]) -> dict[str, Any]:
    """Pair the first half of the sentences with the second, and measure the interpolation.

    Returns:
        `precision_a`: unigram precision of the output at α=1 against a; `precision_b`: at α=0 against b;
        `loss_per_token`: Eq. 5 per token, by α.
    """
    was_training = model.training
    model.eval()
    half = len(sentences) // 2
    pairs = zip(sentences[:half], sentences[half : 2 * half], strict=True)
    losses = dict.fromkeys(RATIOS, 0.0)
    tokens = dict.fromkeys(RATIOS, 0.0)
    precisions: dict[float, list[float]] = {1.0: [], 0.0: []}
    with torch.inference_mode():
        for group in by_length(pairs, lambda pair: len(pair[0]), _BATCH):
            a, b = (list(side) for side in zip(*group, strict=True))
            targets_a, targets_b = (as_targets(**model.tokenize(texts)) for texts in (a, b))
            for alpha in RATIOS:
                states, mask = model.mix_texts(a, b, alpha)
                for share, targets in ((alpha, targets_a), (1 - alpha, targets_b)):
                    if share:
                        losses[alpha] -= share * model.log_likelihood(states, mask, targets).sum().item()
                        tokens[alpha] += share * (targets != IGNORED).sum().item()
                if alpha in precisions:
                    outputs = model.detokenize(generate(model, states, mask, num_beams=1))
                    precisions[alpha] += map(unigram_precision, outputs, a if alpha else b)
    model.train(was_training)
    return {
        "precision_a": sum(precisions[1.0]) / half,
        "precision_b": sum(precisions[0.0]) / half,
        "loss_per_token": {str(alpha): losses[alpha] / tokens[alpha] for alpha in RATIOS},
    }


def validate_middles(model: LindaModel, pairs: list[MiddlePair], tokenize: Tokenizer) -> dict[str, Any]:
    """Compute the loss of held-out middles.

    Returns:
        `middle_loss_per_token`: −log p of the best candidates per token, with the full softmax; `middle_choice`:
        cross-entropy of the choice among all candidates, in nats per row.
    """
    was_training = model.training
    model.eval()
    loss = choice = tokens = 0.0
    rows = sum(len(pair.rows) for pair in pairs)
    with torch.inference_mode():
        for group in by_length(pairs, lambda pair: len(pair.a) + len(pair.b), _MIDDLES_BATCH):
            batch = middle_batch(group, tokenize, model.tokenizer.pad_token_id)
            output = model(**batch.to(model.device))
            share = (int(batch.row.max()) + 1) / rows
            loss += output.reconstruction.item() * share
            choice += output.choice.item() * share if output.choice is not None else 0.0
            tokens += output.reconstruction.item() / output.loss_per_token.item() * share
    model.train(was_training)
    return {"middle_loss_per_token": loss / tokens, "middle_choice": choice}
