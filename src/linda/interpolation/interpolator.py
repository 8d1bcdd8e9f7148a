"""`Interpolator`: texts in, texts out.

    linda = Interpolator.from_pretrained()
    linda.mix("What is the capital of France?", "How many people live in Tokyo?", alpha=0.5)

Rows of (a, b, α, seed) are split into jobs that fit the model's window; jobs are encoded, mixed and decoded in batches
of similar length; the outputs of a row's jobs are joined, in the order of the input. The output of a row depends only
on the row and the model, not on the other rows or the batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor
from tqdm import tqdm

from linda import engines
from linda.config import LindaConfig
from linda.engines import Engine
from linda.engines.decoding import Decoding
from linda.errors import LindaError, checked_integer, checked_ratio, checked_text
from linda.interpolation.between import Kind, decoding_by_kind, is_unwanted, kind_of, without_broken
from linda.interpolation.calibration import calibrated
from linda.interpolation.crossing import PATHS, CrossedPair, cross
from linda.interpolation.encoded_texts import EncodedTexts
from linda.interpolation.jobs import Ids, Job, Row, checked_rows, chunks, row_seeds
from linda.interpolation.longtext import pair_sentences, split_to_window
from linda.interpolation.memory import give_back
from linda.model import LengthConverter, mixed_lengths
from linda.model.attention_mixing import AttentionMixing, Mixture
from linda.model.batching import MOST_TOKENS, batches, padded
from linda.model.checkpoint import load_attention_mixing, load_config, load_converter, model_folder
from linda.model.pretrained import find_device
from linda.model.tokens import Tokens

if TYPE_CHECKING:
    from linda.model import LindaModel

# Jobs are sorted by length within one chunk. Longer chunks mean less padding, but a longer wait for the first row.
_BATCHES_IN_CHUNK = 8


class Interpolator:
    """Writes the text between two texts.

    Args:
        config: settings of the model.
        tokens: its tokenizer.
        converter: its length converter.
        engine: computes its encoder and decoder.
        attention_mixing: weights of attention mixing, if the model has them.

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
        """Load a model. Only what the engine needs is imported, such as `transformers` for the torch engine.

        Args:
            path: a folder written by `linda train`, or a name on the Hugging Face hub; None loads the embedded model.
            device: "auto", "cpu", "cuda" …; "auto" uses a GPU if there is one.
            engine: "auto", "int8" (CPU, 8-bit weights) or "torch".
            precision: of the torch engine: "32", "bf16" or "fp16"; "auto" is half precision on a GPU, 32 bits on a CPU.

        Returns:
            The interpolator.
        """
        folder = model_folder(path)
        config = load_config(folder)
        place = find_device(device)
        tokens = Tokens.from_folder(folder, config.base["vocab_size"])
        chosen = engines.load_folder(engine, folder, config, place, precision)
        mixing = load_attention_mixing(folder, config)
        return cls(
            config,
            tokens,
            load_converter(folder).to(place),
            chosen,
            None if mixing is None else mixing.to(place),
        )

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

    def mix(
        self,
        a: str | list[str],
        b: str | list[str],
        alpha: float | Sequence[float] = 0.5,
        *,
        n: int = 1,
        raw: bool = False,
        copies: bool | None = None,
        seed: int = 0,
        batch_tokens: int | None = None,
        progress: bool = False,
        **decoding: Any,
    ) -> str | list[str] | list[list[str]]:
        """Write the text between a and b.

        A model that mixes by attention returns a or b itself at the ends; between them, the decoder scores all
        crossovers of a and b and the best is returned. Other models, and texts without crossovers, use beam search: the
        likeliest beam that copies neither a nor b and has no n-gram of three tokens twice.

        Args:
            a: the first text, or a list of texts.
            b: the second text, or a list of the same length.
            alpha: share of a, from 0 (gives b) to 1 (gives a): one for all pairs or one per pair.
            n: number of candidates per pair.
            raw: the paper's method: mix states by `alpha` itself, uncalibrated, and allow copies.
            copies: return the likeliest beam even if it copies a or b.
            seed: of sampling.
            batch_tokens: maximum tokens per batch; affects memory, not the texts. The engine has a good default.
            progress: show a progress bar.
            **decoding: fields of `linda.engines.decoding.Decoding`: beams, sample, temperature, top_p, top_k …

        Returns:
            A text for two strings, a list of texts for two lists. With n > 1, each text is a list of n candidates.

        Example:
            >>> linda.mix(["Where is it?"], ["Who wrote this?"], alpha=0.3, n=3, sample=True, top_p=0.9, seed=1)
        """
        settings: dict[str, Any] = {"n": n, "raw": raw, "copies": copies, "batch_tokens": batch_tokens, **decoding}
        if isinstance(a, str) and isinstance(b, str):
            return self.mix([a], [b], alpha, seed=seed, progress=progress, **settings)[0]
        rows = checked_rows(a, b, alpha, seed)
        with tqdm(total=len(rows), desc=self.engine.name, unit="text", disable=not progress) as bar:
            stream = self.mix_stream(rows, on_progress=bar.update, **settings)
            results = list(stream)
        return results if n > 1 else [candidates[0] for candidates in results]

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
            rows: (a, b, alpha, seed) tuples, consumed as needed.
            n: as in `mix`.
            raw: as in `mix`.
            copies: as in `mix`.
            batch_tokens: as in `mix`.
            on_progress: called with the number of newly finished rows.
            encoded: from `encoded_texts`, to share the states of texts with other calls.
            **decoding: as in `mix`.

        Yields:
            A list of n texts per row.
        """
        settings = Decoding.of({"n": n, **decoding})
        vocabulary = self.config.base["vocab_size"]
        for token in settings.withheld:
            checked_integer(token, "withheld", 0, vocabulary - 1)
        if batch_tokens is not None:
            checked_integer(batch_tokens, "batch_tokens", 1, MOST_TOKENS)
        copies = raw if copies is None else copies
        jobs = (job for row in rows for job in self._jobs(*row, raw=raw, copies=copies))
        return self._stream(jobs, settings, batch_tokens, on_progress or (lambda count: None), encoded)

    @torch.inference_mode()
    def scores(self, texts: Sequence[str]) -> list[float | None]:
        """Return how well texts read to the decoder: the mean log-probability of their tokens, without a source text.

        This is what crossovers are chosen by, so only a model that mixes by attention has it. Texts longer than the
        model's window have None.
        """
        if self.attention_mixing is None:
            raise LindaError("this model mixes states and cannot score texts; train one with `--mixing attention`")
        ids = [self.tokens.ids(text) for text in texts]
        places = [i for i, row in enumerate(ids) if len(row) <= self.config.window]
        found: list[float | None] = [None] * len(texts)
        for group in batches([len(ids[i]) for i in places], self.engine.batch_tokens):
            rows = [ids[places[i]] for i in group]
            wanted = [sorted({*row}) for row in rows]
            nothing = self.attention_mixing.without_texts(len(rows))
            reading = self.engine.read(nothing.states, nothing.mask, [[row[:-1]] for row in rows], wanted)
            for i, row, columns, [log_p] in zip(group, rows, wanted, reading.log_p, strict=True):
                of_tokens = log_p[range(len(row)), [columns.index(token) for token in row]]
                found[places[i]] = float(of_tokens.double().mean())
        return found

    def encoded_texts(self, **options: Any) -> EncodedTexts:
        """An empty memory of encoded texts."""
        return EncodedTexts(self.engine, self.config.base["pad_token_id"], **options)

    def _jobs(self, a: str, b: str, alpha: float, seed: int, *, raw: bool, copies: bool) -> Iterator[Job]:
        a, b, alpha = checked_text(a, "text a"), checked_text(b, "text b"), checked_ratio(alpha)
        by_attention = self.attention_mixing is not None and not raw
        # Crossovers have the requested share, so they need no calibration.
        mixed = alpha if raw or by_attention else calibrated(alpha, self.config.calibration)
        window, ids = self.config.window, self.tokens.ids
        ids_a, ids_b = ids(a), ids(b)
        kind = Kind.END if copies else kind_of(alpha, a, b, {*ids_a, *ids_b}, self.tokens.bytes)
        if len(ids_a) <= window and len(ids_b) <= window:
            unwanted = () if kind == Kind.END else (a, b)
            yield Job((a, b), ids_a, ids_b, mixed, seed, "", True, kind, by_attention, copies, unwanted)
            return
        sentences_a, sentences_b = (split_to_window(text, lambda part: len(ids(part)), window) for text in (a, b))
        [count] = _mixed_lengths([len(sentences_a)], [len(sentences_b)], [alpha])
        parts = pair_sentences(sentences_a, sentences_b, count, alpha)
        for j, (part, part_seed) in enumerate(zip(parts, row_seeds(seed), strict=False)):
            yield Job(
                (part.a, part.b),
                ids(part.a),
                ids(part.b),
                mixed,
                part_seed,
                part.gap,
                j == count - 1,
                kind,
                by_attention,
                copies,
            )

    def _stream(
        self,
        jobs: Iterable[Job],
        decoding: Decoding,
        asked: int | None,
        on_progress: Callable[[int], object],
        encoded: EncodedTexts | None,
    ) -> Iterator[list[str]]:
        def batch_tokens() -> int:  # evaluated per chunk: an engine may lower it when it runs out of memory
            return self.engine.batch_tokens if asked is None else asked

        encoded = self.encoded_texts(batch_tokens=batch_tokens()) if encoded is None else encoded
        texts = [""] * decoding.n  # of the current row
        for chunk in chunks(jobs, _BATCHES_IN_CHUNK * batch_tokens()):
            written = self._write(chunk, encoded, decoding, batch_tokens(), on_progress)
            for job, candidates in zip(chunk, written, strict=True):
                texts = [text + new + job.gap for text, new in zip(texts, candidates, strict=True)]
                if job.ends_row:
                    yield texts
                    texts = [""] * decoding.n
            give_back()

    @torch.inference_mode()
    def _write(
        self,
        jobs: list[Job],
        encoded: EncodedTexts,
        decoding: Decoding,
        batch_tokens: int,
        on_progress: Callable[[int], object],
    ) -> list[list[str]]:
        """Return the candidates of each job, in the order of the jobs."""
        written: list[list[str]] = [[] for _ in jobs]
        self._cross(jobs, written, decoding, batch_tokens, on_progress)
        left = [job for job, texts in zip(jobs, written, strict=True) if len(texts) < decoding.n]
        states = encoded([text for job in left for text in (job.a, job.b)])
        lengths = _mixed_lengths(
            [len(job.a) for job in jobs], [len(job.b) for job in jobs], [job.alpha for job in jobs]
        )
        for kind, settings in decoding_by_kind(decoding, self.tokens.bytes).items():
            for by_attention in (False, True):
                places = [
                    i
                    for i, job in enumerate(jobs)
                    if job.kind == kind and job.by_attention == by_attention and len(written[i]) < decoding.n
                ]
                for group in batches([lengths[i] for i in places], batch_tokens, decoding.paths):
                    batch = [places[i] for i in group]
                    rows = [jobs[i] for i in batch]
                    mixture = self._mixture(rows, states, by_attention)
                    hypotheses = self.engine.decode(
                        mixture.states,
                        mixture.mask,
                        settings,
                        [row.seed for row in rows],
                        [{*row.a, *row.b} for row in rows],
                        mixture.prior,
                        mixture.lengths.tolist(),
                    )
                    for i, found in zip(batch, hypotheses, strict=True):
                        texts = self.tokens.texts([hypothesis.ids for hypothesis in found])
                        if kind != Kind.END:
                            # A stable sort: likelier texts first, copies and invalid characters last.
                            texts.sort(key=lambda text: is_unwanted(text, jobs[i].unwanted))
                            texts = [without_broken(text) for text in texts]
                        more = [text for text in texts if text not in written[i]] or texts
                        written[i] = [*written[i], *more][: decoding.n]
                        written[i] += written[i][-1:] * (decoding.n - len(written[i]))
                    on_progress(sum(row.ends_row for row in rows))
        return written

    def _cross(
        self,
        jobs: list[Job],
        written: list[list[str]],
        decoding: Decoding,
        batch_tokens: int,
        on_progress: Callable[[int], object],
    ) -> None:
        """Fill in the rows that need no decoding: the text itself at an end, the best crossovers between."""
        crossed: dict[int, CrossedPair] = {}
        for i, job in enumerate(jobs):
            if not job.by_attention or job.copies:
                continue
            if job.kind == Kind.END:
                written[i] = [job.texts[0] if job.alpha >= 0.5 else job.texts[1]]
                if decoding.n == 1:
                    on_progress(job.ends_row)
                continue
            pair = CrossedPair(*job.texts, job.alpha, self.tokens, job.seed)
            if pair.can_be_cut:
                crossed[i] = pair
        places = list(crossed)
        lengths = [max(len(jobs[i].a), len(jobs[i].b)) for i in places]
        for group in batches(lengths, batch_tokens, PATHS):
            batch = [places[i] for i in group]
            assert self.attention_mixing is not None
            no_texts = self.attention_mixing.without_texts(len(batch))
            found = cross(self.engine, no_texts, [crossed[i] for i in batch], decoding)
            for i, texts in zip(batch, found, strict=True):
                written[i] = texts
                if len(texts) == decoding.n:
                    on_progress(jobs[i].ends_row)

    def _mixture(self, rows: list[Job], states: dict[Ids, Tensor], by_attention: bool) -> Mixture:
        """Mix the states that the decoder attends to."""
        alpha = torch.tensor([row.alpha for row in rows], dtype=torch.float64, device=self.engine.device)
        states_a, mask_a = padded([states[row.a] for row in rows])
        states_b, mask_b = padded([states[row.b] for row in rows])
        if by_attention:
            assert self.attention_mixing is not None
            return self.attention_mixing.mix(states_a, mask_a, states_b, mask_b, alpha)
        mixed, mask = self.converter.mix(states_a, mask_a, states_b, mask_b, alpha)
        return Mixture(mixed, mask, mask.sum(dim=1))


def engine_for(model: Interpolator | str | Path | None, engine: str = "auto") -> str:
    """Return the name of the engine that computes a model, without loading the model."""
    if isinstance(model, Interpolator):
        return model.engine.name
    return engines.choose(engine, load_config(model_folder(model)).base, find_device("auto"))


def _mixed_lengths(lengths_a: list[int], lengths_b: list[int], alpha: list[float]) -> list[int]:
    """Eq. 3, in tokens of a text or in sentences of a long text."""
    ratios = torch.tensor(alpha, dtype=torch.float64)
    return mixed_lengths(torch.tensor(lengths_a), torch.tensor(lengths_b), ratios).tolist()
