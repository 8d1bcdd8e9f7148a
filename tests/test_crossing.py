"""Crossovers that the decoder chooses: their scores compared to brute force, and their use in `Interpolator.mix`."""

import math
from pathlib import Path

import pytest
import torch

from linda.crossovers import Crossover, CrossoverSearch, CutText
from linda.crossovers.search import SHARE_TOLERANCE
from linda.engines import NAMES
from linda.engines.decoding import Decoding, generate
from linda.engines.torch_engine import TorchEngine
from linda.errors import LindaError
from linda.interpolation import Interpolator
from linda.interpolation.crossing import CrossedTexts, _rescored, cross
from linda.measures.word_overlap import words
from linda.model import LindaModel
from linda.model.length_converter import Mixture
from linda.model.tokens import Tokens
from tiny_models import ATTENTION_WINDOW as WINDOW
from tiny_models import save_tiny_attention, save_tiny_bart

PAIRS = [
    ("the old cat sat on the red river and ran.", "a small dog saw the woman in the city of man."),
    ("who is the man in the old city?", "where was the woman and what is a red dog?"),
    ("a man ran in the city.", "the small cat sat and saw the river on the red dog."),
]


@pytest.fixture(scope="module")
def model(tiny_attention_folder: Path) -> LindaModel:
    return LindaModel.from_pretrained(tiny_attention_folder)


@pytest.fixture(scope="module", params=NAMES)
def linda(tiny_attention_folder: Path, request: pytest.FixtureRequest) -> Interpolator:
    return Interpolator.from_pretrained(tiny_attention_folder, device="cpu", engine=request.param)


@pytest.fixture(scope="module")
def exact(tiny_attention_folder: Path) -> Interpolator:
    return Interpolator.from_pretrained(tiny_attention_folder, device="cpu", engine="torch")


def mixture_of(model: LindaModel, a: str, b: str, alpha: float) -> Mixture:
    with torch.no_grad():
        first, second = model.tokenize([a]), model.tokenize([b])
        return model.attention_mixing.mix(
            model.encode(**first),
            first["attention_mask"],
            model.encode(**second),
            second["attention_mask"],
            torch.tensor([alpha]),
        )


def no_texts(model: LindaModel, rows: int = 1) -> Mixture:
    with torch.no_grad():
        return model.attention_mixing.without_texts(rows)


def read(model: LindaModel, mixture: Mixture, sequence: list[int]) -> torch.Tensor:
    """log p of every token after 0, 1 … T tokens of a sequence, (T + 1, V)."""
    start = model.seq2seq.config.decoder_start_token_id
    with torch.no_grad():
        logits = model.seq2seq(
            encoder_outputs=(mixture.states,),
            attention_mask=mixture.mask,
            decoder_input_ids=torch.tensor([[start, *sequence]]),
        ).logits[0]
    return logits.log_softmax(dim=-1)


def tokens_in(pair: CrossedTexts, crossover: Crossover) -> list[int]:
    return [token for t, start, stop in crossover.runs for chunk in pair.chunks[t][start:stop] for token in chunk]


def score_of(pair: CrossedTexts, crossover: Crossover, alpha: float, log_likelihood: float) -> float:
    """For texts without brackets and quotation marks."""
    length = len(tokens_in(pair, crossover))
    wanted = alpha * len(pair.sequences[0]) + (1 - alpha) * len(pair.sequences[1])
    penalty = 4 * abs(crossover.share - alpha) + 1.5 * abs(math.log(length / wanted))
    return 8 * log_likelihood / (length + 1) - penalty  # the mean includes the end marker


def crossed(model: LindaModel, a: str, b: str, alpha: float = 0.5, seed: int = 0) -> CrossedTexts:
    return CrossedTexts([a, b], [alpha, 1 - alpha], Tokens.of(model), seed)


def searched(model: LindaModel, pair: CrossedTexts, mixture: Mixture):
    """The decoder's scores along both texts, and the search for crossovers with them."""
    reading = TorchEngine(model.seq2seq).score(
        mixture.states, mixture.mask, [pair.sequences], [pair.wanted], mixture.prior
    )
    return reading, CrossoverSearch(*pair.texts, pair.scores(reading.log_p[0]))


class TestScores:
    @pytest.mark.parametrize("alpha", [0.3, 0.5, 0.7])
    @pytest.mark.parametrize(("a", "b"), PAIRS)
    def test_one_seam_is_scored_as_by_brute_force(self, model: LindaModel, a: str, b: str, alpha: float) -> None:
        """One text before the seam, one step out of it at the seam, then the other text in its own context."""
        pair, mixture = crossed(model, a, b, alpha), no_texts(model)
        _, search = searched(model, pair, mixture)
        found = [crossover for crossover in search.best(alpha, 10**6) if len(crossover.runs) == 2]
        assert len(found) > 3
        end = pair._end
        along = [read(model, mixture, sequence) for sequence in pair.sequences]
        for crossover in found:
            (x, _, i), (y, j, _) = crossover.runs
            before = [token for chunk in pair.chunks[x][:i] for token in chunk]
            skipped = sum(map(len, pair.chunks[y][:j]))
            after = [*pair.sequences[y][skipped:], end]
            expected = sum(along[x][place, token].item() for place, token in enumerate(before))
            expected += along[x][len(before), after[0]].item()
            expected += sum(along[y][skipped + place, token].item() for place, token in enumerate(after) if place)
            assert crossover.score == pytest.approx(score_of(pair, crossover, alpha, expected), abs=1e-3)

    @pytest.mark.parametrize("alpha", [0.3, 0.5, 0.7])
    def test_read_to_the_end_one_seam_is_scored_by_its_log_likelihood(self, model: LindaModel, alpha: float) -> None:
        for a, b in PAIRS:
            pair, mixture = crossed(model, a, b, alpha), no_texts(model)
            reading, search = searched(model, pair, mixture)
            shortlist = [crossover for crossover in search.best(alpha, 400) if len(crossover.runs) == 2]
            assert len(shortlist) > 3
            [found] = _rescored(reading, [pair], [shortlist], tokens_after=1000)
            assert {crossover.runs for crossover in found} == {crossover.runs for crossover in shortlist}
            assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
            for crossover in found:
                targets = torch.tensor([[*tokens_in(pair, crossover), pair._end]])
                with torch.no_grad():
                    likelihood = model.log_likelihood(mixture.states, mixture.mask, targets)
                expected = score_of(pair, crossover, alpha, likelihood.item())
                assert crossover.score == pytest.approx(expected, abs=1e-3)

    def test_a_text_is_scored_by_its_mean_log_probability(self, model: LindaModel, exact: Interpolator) -> None:
        texts = [text for pair in PAIRS for text in pair]
        nothing = no_texts(model)
        for text, score in zip([*texts, "the cat " * 90], exact.scores([*texts, "the cat " * 90]), strict=True):
            targets = torch.tensor([Tokens.of(model).ids(text)])
            if targets.shape[1] > WINDOW:
                assert score is None
                continue
            with torch.no_grad():
                expected = model.log_likelihood(nothing.states, nothing.mask, targets).item() / targets.shape[1]
            assert score == pytest.approx(expected, abs=1e-4)
        assert exact.scores(texts[2:3]) == exact.scores(texts)[2:3]

    @pytest.mark.parametrize("engine", NAMES)
    def test_a_start_token_is_read_once(self, tmp_path: Path, engine: str) -> None:
        """The ids of a text of BART begin with the token that its decoder is forced to write first."""
        folder = save_tiny_attention(save_tiny_bart(tmp_path / "bart"), tmp_path / "linda")
        bart = LindaModel.from_pretrained(folder)
        texts = [text for pair in PAIRS for text in pair]
        found = Interpolator.from_pretrained(folder, device="cpu", engine=engine).scores(texts)
        nothing = no_texts(bart)
        for text, score in zip(texts, found, strict=True):
            start, *ids = Tokens.of(bart).ids(text)
            assert start == bart.tokenizer.bos_token_id
            with torch.no_grad():
                logits = bart.seq2seq(
                    encoder_outputs=(nothing.states,),
                    attention_mask=nothing.mask,
                    decoder_input_ids=torch.tensor([[bart.tokenizer.eos_token_id, start, *ids[:-1]]]),
                ).logits[0, 1:]
            expected = logits.log_softmax(dim=-1)[range(len(ids)), ids].mean().item()
            assert score == pytest.approx(expected, abs=1e-4 if engine == "torch" else 0.02)

    def test_a_model_that_mixes_states_cannot_score_texts(self, tiny_model: LindaModel) -> None:
        with pytest.raises(LindaError, match="mixes states and cannot score texts"):
            Interpolator.of(tiny_model, "torch").scores(["the cat sat"])

    def test_a_crossover_has_the_tokens_of_its_text(self, model: LindaModel) -> None:
        """If the tokenizer does not merge tokens across a seam."""
        tokens = Tokens.of(model)
        for a, b in PAIRS:
            pair, mixture = crossed(model, a, b), no_texts(model)
            _, search = searched(model, pair, mixture)
            for crossover in search.best(0.5, 30):
                assert tuple(tokens_in(pair, crossover)) == tokens.ids(crossover.text(*pair.texts))[:-1]


class TestTokensOfChunks:
    @pytest.mark.parametrize(
        "text",
        [
            "the cat sat on the old red river.",
            "two  spaces,\ttabs\nand lines \r\n",
            " \n  leading",
            "日本 語 is 🙂 hard 今日は天気がいい",
            "naïve café e\u0301 \u200b\u00a0x",
            "</s> <mask> <pad>",
            "\x00\x7f",
            "a",
        ],
    )
    def test_together_they_are_the_tokens_of_the_text(self, model: LindaModel, text: str) -> None:
        tokens, chunks = Tokens.of(model), CutText(text, "")
        by_chunk = tokens.by_chunk(text, chunks.ends)
        assert len(by_chunk) == len(chunks)
        assert tuple(token for chunk in by_chunk for token in chunk) == tokens.ids(text)[:-1]
        assert tokens.end == tokens.ids(text)[-1] == model.tokenizer.eos_token_id

    def test_white_space_belongs_to_the_word_after_it(self, model: LindaModel) -> None:
        tokens = Tokens.of(model)
        text = "the  cat\nsat the"
        by_chunk = tokens.by_chunk(text, CutText(text, "").ends)
        assert tokens.texts(by_chunk) == ["the", " cat", "\nsat", "the"]  # the tokenizer adds the first space

    def test_a_tokenizer_of_its_own_kind(self, model: LindaModel) -> None:
        """A tokenizer without `tokenizers` inside is called chunk by chunk."""

        class Slow:
            all_special_ids = model.tokenizer.all_special_ids

            def __call__(self, text: str, **_) -> dict:
                return {"input_ids": model.tokenizer(text)["input_ids"]}

        text = "the old cat saw a dog"
        slow, fast, ends = Tokens(Slow()), Tokens.of(model), CutText(text, "").ends
        assert slow.end == fast.end
        assert slow.by_chunk(text, ends) == fast.by_chunk(text, ends)


class TestSampling:
    def drawn(self, model: LindaModel, seed: int = 0, pair: tuple[str, str] = PAIRS[0], **settings) -> list[str]:
        [texts] = self.drawn_with(model, [seed], pair, **settings)
        return texts

    def drawn_with(self, model: LindaModel, seeds, pair: tuple[str, str] = PAIRS[0], **settings) -> list[list[str]]:
        crossings = [crossed(model, *pair, seed=seed) for seed in seeds]
        mixture = no_texts(model, len(crossings))
        return list(cross(TorchEngine(model.seq2seq), mixture, crossings, Decoding(sample=True, **settings)))

    def ranked(self, model: LindaModel) -> list[Crossover]:
        """The crossovers to sample from, by their scores with the tokens behind their seams."""
        pair = crossed(model, *PAIRS[0])
        reading, search = searched(model, pair, no_texts(model))
        [found] = _rescored(reading, [pair], [search.best(0.5, 48)], tokens_after=3)
        return found

    def best(self, model: LindaModel, count: int) -> list[str]:
        pair = crossed(model, *PAIRS[0])
        return [crossover.text(*pair.texts) for crossover in self.ranked(model)[:count]]

    def test_the_seed_alone_decides_and_the_first_is_the_same_whatever_n(self, model: LindaModel) -> None:
        five = self.drawn(model, n=5, temperature=5.0)
        assert len(set(five)) == 5
        assert self.drawn(model, n=5, temperature=5.0) == five
        assert self.drawn(model, n=1, temperature=5.0) == five[:1]
        others = {tuple(self.drawn(model, seed, n=5, temperature=5.0)) for seed in range(1, 6)}
        assert tuple(five) not in others

    def test_a_low_temperature_draws_the_best_in_order(self, model: LindaModel) -> None:
        assert self.drawn(model, n=4, temperature=0.001) == self.best(model, 4)

    def test_a_high_temperature_draws_more_varied_texts(self, model: LindaModel) -> None:
        varied = [{text for [text] in self.drawn_with(model, range(40), n=1, temperature=t)} for t in (0.2, 100.0)]
        assert len(varied[1]) > len(varied[0])

    def test_top_k(self, model: LindaModel) -> None:
        drawn = {text for texts in self.drawn_with(model, range(20), n=3, top_k=3, temperature=100.0) for text in texts}
        assert drawn == {*self.best(model, 3)}

    def test_top_p(self, model: LindaModel) -> None:
        """At such a high temperature all are about equally likely: a quarter of 48 is 12."""
        drawn = self.drawn_with(model, range(20), n=20, top_p=0.25, temperature=1000.0)
        count = len(self.drawn(model, n=48, temperature=1000.0))
        assert {text for texts in drawn for text in texts} == {*self.best(model, math.ceil(count / 4))}
        assert self.drawn(model, n=9, top_p=1e-9) == self.best(model, 1)

    def test_draws_follow_the_scores(self, model: LindaModel) -> None:
        pair = crossed(model, *PAIRS[0])
        first, second = self.ranked(model)[:2]
        temperature = max(0.1, first.score - second.score)
        drawn = [text for [text] in self.drawn_with(model, range(400), n=1, top_k=2, temperature=temperature)]
        odds = math.exp((first.score - second.score) / temperature)
        share = drawn.count(first.text(*pair.texts)) / len(drawn)
        assert share == pytest.approx(odds / (1 + odds), abs=0.1)


class TestMix:
    A, B = [a for a, _ in PAIRS], [b for _, b in PAIRS]

    def test_between_the_ends_the_words_are_those_of_both_texts_in_runs(self, linda: Interpolator) -> None:
        for a, b in PAIRS:
            for alpha in (0.3, 0.5, 0.7):
                text = linda.mix(a, b, alpha)
                own = {*words(a)} - {*words(b)}, {*words(b)} - {*words(a)}
                counts = [sum(word in side for word in words(text)) for side in own]
                assert counts[0] / sum(counts) == pytest.approx(alpha, abs=SHARE_TOLERANCE + 1e-9)
                assert {*text.split()} <= {*a.split(), *b.split()}

    @pytest.mark.parametrize("alpha", [0.1, 0.9])
    def test_near_an_end_the_inner_side_is_not_preferred(self, linda: Interpolator, alpha: float) -> None:
        """The share can differ by at most 0.06 if there are such crossovers, though 0.1 is allowed elsewhere."""
        a, b = " ".join(f"one{i}" for i in range(20)), " ".join(f"two{i}" for i in range(20))
        # Three, because the second part of these texts, which exceed the window, has no more crossovers.
        for text in linda.mix(a, b, alpha, n=3):
            assert text.count("one") / len(text.split()) == pytest.approx(alpha, abs=0.06 + 1e-9)

    def test_texts_too_short_for_a_crossover_near_an_end_give_the_end(self, linda: Interpolator) -> None:
        a, b = "the old red cat sat", "the small red dog sat"  # the shares of crossovers are 1/3, 1/2 and 2/3
        assert linda.mix(a, b, 0.1) == b
        assert linda.mix(a, b, 0.9) == a

    def test_texts_too_short_for_the_ratio_give_a_crossover_farther_from_it(self, linda: Interpolator) -> None:
        a, b = "cat river old", "dog woman city"  # the shares of crossovers are 1/3, 1/2 and 2/3
        text = linda.mix(a, b, 0.18)
        assert {*text.split()} <= {*a.split(), *b.split()}
        assert text not in (a, b)

    @pytest.mark.parametrize(("a", "b"), PAIRS)
    def test_the_text_is_the_best_after_reading_on(
        self, exact: Interpolator, model: LindaModel, a: str, b: str
    ) -> None:
        """First a few tokens behind the seams of 48 crossovers, then more behind those of the best eight."""
        pair, mixture = crossed(model, a, b), no_texts(model)
        reading, search = searched(model, pair, mixture)
        candidates = search.best(0.5, 48)
        [ranked] = _rescored(reading, [pair], [candidates], tokens_after=3)
        finalists = [crossover for crossover in candidates if crossover.runs in {best.runs for best in ranked[:8]}]
        [found] = _rescored(reading, [pair], [finalists], tokens_after=8)
        assert exact.mix(a, b, 0.5) == found[0].text(*pair.texts)
        assert exact.mix(a, b, 0.5, n=3) == [crossover.text(*pair.texts) for crossover in found[:3]]

    def test_at_the_ends_the_text_itself_comes_back(self, linda: Interpolator) -> None:
        for text in (PAIRS[0][0], "two  spaces\tand 🙂\n漢字", "the  old </s> <mask>"):
            assert linda.mix(text, PAIRS[0][1], 1.0) == text
            assert linda.mix(PAIRS[0][1], text, 0.0) == text
            assert linda.mix(text, text, 0.5) == text
            assert linda.mix(text, PAIRS[0][1], 1.0, sample=True) == text
            candidates = linda.mix(text, PAIRS[0][1], 1.0, n=3)
            assert candidates[0] == text
            assert len(candidates) == 3

    def test_calibration_is_of_the_other_way_of_mixing(self, exact: Interpolator, monkeypatch) -> None:
        expected = exact.mix(*PAIRS[0], 0.3)
        monkeypatch.setattr(exact.config, "calibration", [(0.0, 0.0), (0.3, 0.7), (1.0, 1.0)])
        assert exact.mix(*PAIRS[0], 0.3) == expected

    @pytest.mark.parametrize("settings", [{}, {"n": 3}, {"sample": True, "n": 2}, {"copies": True}], ids=str)
    def test_a_row_depends_neither_on_the_others_nor_on_the_batch(self, linda: Interpolator, settings: dict) -> None:
        rows = [
            (a, b, alpha, number)
            for number, (a, b) in enumerate([*PAIRS, ("yes", "no"), ("the cat " * 60, PAIRS[0][0])])
            for alpha in (0.0, 0.35, 0.5, 0.8)
        ]
        expected = list(linda.mix_stream(rows, **settings))
        for batch_tokens in (1, 300):
            assert list(linda.mix_stream(rows, batch_tokens=batch_tokens, **settings)) == expected
        assert list(linda.mix_stream(rows[::-1], **settings)) == expected[::-1]
        for row, texts in zip(rows[4:8], expected[4:8], strict=True):
            assert list(linda.mix_stream([row], **settings)) == [texts]

    def test_white_space_and_rare_characters_are_kept(self, linda: Interpolator) -> None:
        a, b = "the  old\tcat sat\non the red 🙂 river", "今日は天気がいい a small  dog saw\n\nthe city"
        gaps = {*"\t\n ", "  ", "\n\n"}
        for alpha in (0.3, 0.5, 0.7):
            for text in linda.mix(a, b, alpha, n=4):
                pieces = [chunk for x in (a, b) for chunk in CutText(x, "").chunks]
                assert {*CutText(text, "").chunks} <= {*pieces}
                assert "\ufffd" not in text
                between = CutText(text, "")
                assert {between.gap_before(place) for place in range(1, len(between))} - {""} <= gaps

    @pytest.mark.parametrize(
        ("a", "b"), [("yes", "no"), ("cat", "the old dog ran"), ("the river", "river the"), ("🙂", "漢")]
    )
    @pytest.mark.parametrize("settings", [{}, {"sample": True}], ids=str)
    def test_texts_without_a_crossover_are_written(self, exact: Interpolator, a: str, b: str, settings: dict) -> None:
        assert exact.mix(a, b, 0.5, **settings) not in (a, b)
        written = exact.mix(a, b, 0.5, n=3, **settings)
        assert len(written) == 3
        assert not {a, b} & {*written}

    def test_more_candidates_than_crossovers_are_filled_up(self, linda: Interpolator) -> None:
        a, b = "the cat sat", "a dog ran"
        settings = {"n": 30, "sample": True}
        drawn = linda.mix(a, b, 0.5, **settings)
        assert len(drawn) == 30
        crossovers = [text for text in drawn if text and {*text.split()} <= {*a.split(), *b.split()}]
        assert 0 < len(crossovers) < 30
        assert drawn[: len(crossovers)] == crossovers  # they come first
        assert linda.mix(a, b, 0.5, n=1, sample=True) == drawn[0]
        best = linda.mix(a, b, 0.5, n=12, beams=12)
        assert len(best) == 12

    def test_long_texts_are_mixed_sentence_by_sentence(self, linda: Interpolator) -> None:
        a = " ".join(f"{sentence}" for sentence in [PAIRS[0][0], PAIRS[2][0]] * 4)
        b = " ".join(f"{sentence}" for sentence in [PAIRS[0][1], PAIRS[2][1]] * 4)
        assert len(linda.tokens.ids(a)) > WINDOW
        text = linda.mix(a, b, 0.5)
        assert {*text.split()} <= {*a.split(), *b.split()}
        assert text.count(".") == 8
        assert linda.mix(a, b, 1.0) == a
        assert linda.mix(a, b, 0.0) == b
        # Each sentence is the same as by itself.
        expected = [linda.mix(first, second, 0.5) for first, second in [PAIRS[0], PAIRS[2]] * 4]
        assert text == " ".join(expected)

    def test_a_long_row_of_spaces(self, linda: Interpolator) -> None:
        a = "the cat" + " " * 300 + "sat. " + "the old man ran. " * 12
        assert isinstance(linda.mix(a, PAIRS[0][0] + " " * 200, 0.5), str)

    def test_raw_adds_states_as_in_the_paper(self, exact: Interpolator, model: LindaModel) -> None:
        for a, b in PAIRS:
            with torch.no_grad():
                ids = generate(model, *model.mix_texts([a], [b], 0.5))
            assert exact.mix(a, b, 0.5, raw=True) == model.detokenize(ids)[0]

    def test_copies_are_written_by_beam_search_with_attention(self, exact: Interpolator, model: LindaModel) -> None:
        for a, b in PAIRS:
            mixture = mixture_of(model, a, b, 0.5)
            [[expected]] = TorchEngine(model.seq2seq).decode(
                mixture.states, mixture.mask, Decoding(), [0], prior=mixture.prior, lengths=mixture.lengths.tolist()
            )
            assert exact.mix(a, b, 0.5, copies=True) == exact.tokens.texts([expected.ids])[0]

    def test_progress_counts_every_row_once(self, exact: Interpolator) -> None:
        rows = [
            (*PAIRS[0], 0.5, 0),
            (*PAIRS[1], 1.0, 1),
            ("yes", "no", 0.5, 2),
            ("the cat " * 60, PAIRS[0][0], 0.4, 3),
            ("the cat sat", "a dog ran", 0.5, 4),
        ]
        for n in (1, 4):
            told: list[int] = []
            list(exact.mix_stream(rows, n=n, on_progress=told.append, batch_tokens=64))
            assert sum(told) == len(rows)

    def test_a_model_in_memory_mixes_as_its_folder_does(self, model: LindaModel, linda: Interpolator) -> None:
        held = Interpolator.of(model, linda.engine.name)
        assert held.mix(self.A, self.B, 0.5) == linda.mix(self.A, self.B, 0.5)


def test_a_server_writes_the_same_texts(linda: Interpolator) -> None:
    pytest.importorskip("fastapi", reason="the server is not installed: pip install 'linda[web]'")
    from linda.web.batcher import Batcher
    from linda.web.interpolation import ScoredInterpolator, SharedInterpolator, checked_settings

    rows = [(a, b, alpha, 0) for a, b in PAIRS for alpha in (0.0, 0.4, 0.7, 1.0)]
    wanted = list(linda.mix_stream(rows))
    scored = ScoredInterpolator(linda)
    batcher = Batcher(scored.mix, waiting_rows=100)
    try:
        for _ in range(2):  # the second time, the states of all texts are known
            assert [[text for text, _ in found] for found in batcher.mix(rows, checked_settings())] == wanted
        assert list(SharedInterpolator(linda, batcher).mix_stream(rows)) == wanted
    finally:
        batcher.close()


def test_texts_are_read_in_half_precision_too(tiny_attention_folder: Path) -> None:
    half = Interpolator.from_pretrained(tiny_attention_folder, device="cpu", precision="bf16")
    assert half.mix(*PAIRS[0], 0.5) not in PAIRS[0]
