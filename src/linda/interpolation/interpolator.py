"""`Interpolator` writes the text between texts.

    linda = Interpolator.from_pretrained()
    linda.mix("What is the capital of France?", "How many people live in Tokyo?", alpha=0.5)

Rows of (a, b, α, seed) or (texts, weights, seed) are split into jobs that fit the model's window (`jobs`), which are
processed in batches of similar length (`job_writer`). The output of a row depends only on the row and the model, not on
other rows or the batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from tqdm import tqdm

from linda import engines
from linda.config import LindaConfig
from linda.engines import Engine
from linda.engines.decoding import Decoding
from linda.errors import LindaError, checked_integer
from linda.interpolation.encoded_texts import EncodedTexts
from linda.interpolation.job_writer import JobWriter
from linda.interpolation.jobs import JobMaker
from linda.interpolation.rows import Row, rows_to_mix
from linda.model.attention_mixing import AttentionMixing
from linda.model.batching import MAX_TOKENS, batches
from linda.model.checkpoint import load_attention_mixing, load_config, load_converter, model_folder
from linda.model.length_converter import LengthConverter
from linda.model.pretrained import find_device
from linda.model.tokens import Tokens

if TYPE_CHECKING:
    from linda.model import LindaModel


class Interpolator:
    """Writes the text between two texts.

    Args:
        config: Settings of the model.
        tokens: Tokenizer of the model.
        converter: Length converter of the model.
        engine: Engine that computes the encoder and decoder.
        attention_mixing: Weights of attention mixing, if the model has them.

    Example:
        >>> linda = Interpolator.from_pretrained()
        >>> linda.mix("What is the capital of France?", "How many people live in Tokyo?", alpha=0.5)
        'What is the capital of Tokyo?'
    """

    def __init__(
        self,
        config: LindaConfig,
        tokens: Tokens,
        converter: LengthConverter,
        engine: Engine,
        attention_mixing: AttentionMixing | None = None,
    ) -> None:
        self.config = config
        self.tokens = tokens
        self.converter = converter
        self.engine = engine
        self.attention_mixing = attention_mixing

    @classmethod
    def of(cls, model: LindaModel, engine: str = "auto") -> Interpolator:
        """Create an interpolator for a model in memory; engine: "auto", "int8" or "torch"."""
        return cls(model.config, Tokens.of(model), model.converter, engines.load(engine, model), model.attention_mixing)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path | None = None,
        *,
        device: str = "auto",
        engine: str = "auto",
        precision: str = "auto",
    ) -> Interpolator:
        """Load a model. `transformers` is imported only for the torch engine.

        Args:
            path: Folder written by `linda train`, or name on the Hugging Face hub; None loads the embedded model.
            device: "auto", "cpu", "cuda" …; "auto" uses a GPU if there is one.
            engine: "auto", "int8" (CPU, 8-bit weights) or "torch".
            precision: Precision of the torch engine: "32", "bf16" or "fp16"; "auto" is half precision on a GPU, 32 bits
                on a CPU.

        Returns:
            The interpolator.

        Example:
            >>> Interpolator.from_pretrained().mix("Where is it?", "Who wrote this?", alpha=1)
            'Where is it?'
            >>> Interpolator.from_pretrained("my-model", device="cuda:1", precision="bf16")
        """
        folder = model_folder(path)
        config = load_config(folder)
        place = find_device(device)
        tokens = Tokens.from_folder(folder, config.base["vocab_size"])
        chosen = engines.load_folder(engine, folder, config, place, precision)
        mixing = load_attention_mixing(folder, config)
        mixing = None if mixing is None else mixing.to(place)
        return cls(config, tokens, load_converter(folder).to(place), chosen, mixing)

    @overload
    def mix(self, a: str, b: str, alpha: float = ..., *, n: Literal[1] = ..., **settings: Any) -> str: ...
    @overload
    def mix(self, a: str, b: str, alpha: float = ..., *, n: int, **settings: Any) -> list[str]: ...
    @overload
    def mix(
        self,
        a: list[str],
        b: list[str],
        alpha: float | Sequence[float] = ...,
        *,
        n: Literal[1] = ...,
        **settings: Any,
    ) -> list[str]: ...
    @overload
    def mix(
        self, a: list[str], b: list[str], alpha: float | Sequence[float] = ..., *, n: int, **settings: Any
    ) -> list[list[str]]: ...
    @overload
    def mix(self, a: Sequence[str] | Sequence[Sequence[str]], *, weights: Any = ..., **settings: Any) -> Any: ...

    def mix(
        self,
        a: str | Sequence[str] | Sequence[Sequence[str]],
        b: str | list[str] | None = None,
        alpha: float | Sequence[float] = 0.5,
        *,
        weights: Any = None,
        n: int = 1,
        raw: bool = False,
        copies: bool | None = None,
        seed: int = 0,
        batch_tokens: int | None = None,
        progress: bool = False,
        **decoding: Any,
    ) -> str | list[str] | list[list[str]]:
        """Write the text between a and b, or between three or more texts.

        A model that mixes by attention returns a or b itself at the ends; in between, the decoder scores all crossovers
        of a and b, and the best is returned. Other models, and texts without crossovers, use beam search: the most
        likely beam that is not a copy of a or b and contains no trigram of tokens twice.

        Without b, the texts in a are mixed: `mix([a, b, c], weights=[0.5, 0.3, 0.2])`, or for many rows
        `mix([firsts, seconds, thirds], weights=…)`. As in `numpy.average`, only the ratios of the weights matter. The
        result has one run of words from each text, in the most likely order. Texts with weight 0, or with a share of
        less than half a word, are left out. If texts are too short or too similar, those with the smallest weights are
        left out. Two texts give `mix(a, b, alpha)`. Three or more need a model that mixes by attention.

        Args:
            a: First text, or list of texts; without b, list of the texts to mix, or of lists of texts.
            b: Second text, or list of the same length.
            alpha: Share of a, from 0 (gives b) to 1 (gives a): one for all pairs or one per pair.
            weights: Without b, share of each text: one list for all rows or one per row. Default: equal shares.
            n: Number of candidates per pair.
            raw: Use the paper's method: mix states at the uncalibrated `alpha`, and allow copies.
            copies: Return the most likely beam even if it is a copy of a or b.
            seed: Seed of sampling.
            batch_tokens: Maximum tokens per batch; affects memory, not the texts. Default: chosen by the engine.
            progress: Show a progress bar.
            **decoding: Fields of `linda.engines.decoding.Decoding`: beams, sample, temperature, top_p, top_k …

        Returns:
            A text for strings, a list of texts for lists of strings. With n > 1, each text is a list of n candidates.

        Example:
            >>> linda.mix(["Where is it?"], ["Who wrote this?"], alpha=0.3, n=3, sample=True, top_p=0.9, seed=1)
        """
        rows, is_single = rows_to_mix(a, b, alpha, weights, seed)
        with tqdm(total=len(rows), desc=self.engine.name, unit="text", disable=not progress) as bar:
            settings: dict[str, Any] = {"n": n, "raw": raw, "copies": copies, "batch_tokens": batch_tokens, **decoding}
            results: list[Any] = list(self.mix_stream(rows, on_progress=bar.update, **settings))
        if n == 1:
            results = [candidates[0] for candidates in results]
        return results[0] if is_single else results

    def mix_stream(
        self,
        rows: Iterable[Row],
        *,
        n: int = 1,
        raw: bool = False,
        copies: bool | None = None,
        batch_tokens: int | None = None,
        on_progress: Callable[[int], object] | None = None,
        encoded: EncodedTexts | None = None,
        **decoding: Any,
    ) -> Iterator[list[str]]:
        """Yield the n candidates of each row in order, in memory that does not grow with the number of rows.

        Args:
            rows: (a, b, alpha, seed) or (texts, weights, seed) tuples, consumed as needed.
            n: As in `mix`.
            raw: As in `mix`.
            copies: As in `mix`.
            batch_tokens: As in `mix`.
            on_progress: Function called with the number of newly finished rows.
            encoded: Cache from `encoded_texts`, to share encoder states with other calls.
            **decoding: As in `mix`.

        Yields:
            A list of n texts per row.

        Example:
            >>> rows = (("Where is it?", "Who wrote this?", alpha, 0) for alpha in (0.0, 1.0))
            >>> list(linda.mix_stream(rows))
            [['Who wrote this?'], ['Where is it?']]
        """
        settings = Decoding.of({"n": n, **decoding})
        vocabulary = self.config.base["vocab_size"]
        for token in settings.withheld:
            checked_integer(token, "withheld", 0, vocabulary - 1)
        if batch_tokens is not None:
            checked_integer(batch_tokens, "batch_tokens", 1, MAX_TOKENS)
        copies = raw if copies is None else copies
        by_attention = self.attention_mixing is not None and not raw
        jobs_of = JobMaker(self.config, self.tokens, by_attention=by_attention, raw=raw, copies=copies)
        jobs = (job for row in rows for job in jobs_of(row))
        return JobWriter(self, settings, encoded, batch_tokens, on_progress).rows(jobs)

    @torch.inference_mode()
    def scores(self, texts: Sequence[str]) -> list[float | None]:
        """Return the mean log-probability per token of each text under the decoder, without a source text.

        Crossovers are chosen by this score, which only a model that mixes by attention has. For texts longer than the
        model's window, it is None.
        """
        if self.attention_mixing is None:
            raise LindaError("this model mixes states and cannot score texts; train one with `--mixing attention`")
        # Without special tokens: the engine itself adds a start token that the model forces.
        ids = [[*self.tokens.by_chunk(text, [len(text)])[0], self.tokens.end] for text in texts]
        short = [i for i, row in enumerate(ids) if len(row) <= self.config.window]
        means: list[float | None] = [None] * len(texts)
        for group in batches([len(ids[i]) for i in short], self.engine.batch_tokens):
            rows = [ids[short[i]] for i in group]
            wanted = [sorted({*row}) for row in rows]
            empty = self.attention_mixing.without_texts(len(rows))
            scores = self.engine.score(empty.states, empty.mask, [[row[:-1]] for row in rows], wanted)
            for i, row, columns, [log_p] in zip(group, rows, wanted, scores.log_p, strict=True):
                of_tokens = log_p[range(len(row)), [columns.index(token) for token in row]]
                means[short[i]] = float(of_tokens.double().mean())
        return means

    def encoded_texts(self, **options: Any) -> EncodedTexts:
        """Create an empty cache of encoder states."""
        return EncodedTexts(self.engine, self.config.base["pad_token_id"], **options)


def engine_for(model: Interpolator | str | Path | None, engine: str = "auto") -> str:
    """Return the name of the engine that computes a model, without loading the model."""
    if isinstance(model, Interpolator):
        return model.engine.name
    return engines.choose(engine, load_config(model_folder(model)).base, find_device("auto"))
