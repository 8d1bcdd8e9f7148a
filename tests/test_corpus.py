import gzip
import itertools
import json
import lzma
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from linda.errors import LindaError
from linda.model import IGNORED
from linda.training.corpus import Corpus, mask_words, read_sentences, restyle
from linda.training.pair_batches import PairBatch, PairSampler

MASK, PAD = 900, 901


def _word_ids(texts: list[str]) -> list[list[int]]:
    return [[MASK if word == "<mask>" else int(word) for word in text.split()] for text in texts]


def _tokenize(masked: list[str], targets: list[str]) -> tuple[list[list[int]], list[list[int]]]:
    return _word_ids(masked), _word_ids(targets)


def _corpus(tmp_path: Path, count: int = 400) -> Corpus:
    """Sentence i is 'i i i …', 2 to 9 words: a row of ids identifies its sentence."""
    path = tmp_path / "corpus.txt"
    path.write_text("".join(" ".join([str(i)] * (2 + i % 8)) + "\n" for i in range(count)))
    return Corpus.parse([str(path)])


def _sampler(corpus: Corpus, **changes: object) -> PairSampler:
    settings: dict[str, object] = {
        "mask_token": "<mask>", "mask_probability": 0.0, "pad_id": PAD, "pairs": 8, "seed": 7,
    }  # fmt: skip
    return PairSampler(corpus, _tokenize, **{**settings, **changes})  # type: ignore[arg-type]


def _take(sampler: PairSampler, count: int, first_step: int = 0) -> list[tuple[int, PairBatch]]:
    return list(itertools.islice(sampler.batches(first_step), count))


def _equal(one: PairBatch, other: PairBatch) -> bool:
    return all(torch.equal(value, vars(other)[name]) for name, value in vars(one).items())


class TestReading:
    def test_every_kind_of_file(self, tmp_path: Path) -> None:
        lines = "one two\n\nnews\tthree four\n"
        (tmp_path / "a.txt").write_text(lines)
        (tmp_path / "a.txt.gz").write_bytes(gzip.compress(lines.encode()))
        (tmp_path / "a.txt.xz").write_bytes(lzma.compress(lines.encode()))
        (tmp_path / "a.jsonl").write_text('{"text": "one two"}\n{"text": "three four", "label": 1}\n')
        for name in ("a.txt", "a.txt.gz", "a.txt.xz", "a.jsonl"):
            assert list(read_sentences(str(tmp_path / name))) == ["one two", "three four"]

    def test_a_table_is_no_corpus(self, tmp_path: Path) -> None:
        with pytest.raises(LindaError, match=r"reviews.csv.gz: .csv is a table; give plain lines"):
            list(read_sentences(str(tmp_path / "reviews.csv.gz")))

    def test_a_json_line_without_text(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"label": 1}\n')
        with pytest.raises(LindaError, match="line 2"):
            list(read_sentences(str(tmp_path / "a.jsonl")))

    def test_a_data_set_that_cannot_be_had(self) -> None:
        with pytest.raises(LindaError, match="nobody/nothing"):
            list(read_sentences("hub:nobody/nothing"))

    @pytest.mark.parametrize(
        "sources",
        [[], ["a.txt=0.5"], ["a.txt", "b.txt=1.5"], ["a.txt", "b.txt=nan"], ["a.txt", "b.txt=-0.1"],
         ["a.txt", "b.txt=0.1", "b.txt=0.2"]],
    )  # fmt: skip
    def test_wrong_sources(self, sources: list[str]) -> None:
        with pytest.raises(LindaError):
            Corpus.parse(sources)

    def test_a_name_with_an_equals_sign(self, tmp_path: Path) -> None:
        (tmp_path / "lang=en.txt").write_text("one\ntwo\n")
        corpus = Corpus.parse([f"{tmp_path}/lang=en.txt", f"{tmp_path}/lang=en.txt=0.5"])
        assert corpus.main == [f"{tmp_path}/lang=en.txt"]
        assert corpus.mixed_in == {f"{tmp_path}/lang=en.txt": 0.5}
        corpus.check_readable()

    def test_a_source_that_is_not_there_is_told_before_it_is_needed(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("one\ntwo\n")
        with pytest.raises(LindaError, match=r"b\.txt=x"):
            Corpus.parse([f"{tmp_path}/a.txt", f"{tmp_path}/b.txt=x"]).check_readable()
        (tmp_path / "b.txt").write_text(" \n")
        with pytest.raises(LindaError, match="no sentence"):
            Corpus.parse([f"{tmp_path}/a.txt", f"{tmp_path}/b.txt=0.1"]).check_readable()

    @pytest.mark.parametrize("value", ["null", "5", '["a"]', '"\\ud800 half"', "9" * 5000, "[" * 100_000])
    def test_a_json_text_that_is_none(self, tmp_path: Path, value: str) -> None:
        (tmp_path / "a.jsonl").write_text(f'{{"text": "fine"}}\n{{"text": {value}}}\n')
        with pytest.raises(LindaError, match="line 2"):
            list(read_sentences(str(tmp_path / "a.jsonl")))


class TestMixedIn:
    def test_has_its_share_and_the_main_file_comes_whole(self, tmp_path: Path) -> None:
        (tmp_path / "main.txt").write_text("".join(f"main {i}\n" for i in range(3000)))
        (tmp_path / "other.txt").write_text("".join(f"other {i}\n" for i in range(10)))
        corpus = Corpus.parse([f"{tmp_path}/main.txt", f"{tmp_path}/other.txt=0.25"])
        sentences = list(next(corpus.epochs(seed=0)))
        counts = Counter(text.split()[0] for text in sentences)
        assert counts["main"] == 3000
        assert counts["other"] / len(sentences) == pytest.approx(0.25, abs=0.02)
        assert sentences == list(next(corpus.epochs(seed=0)))
        assert sentences != list(next(corpus.epochs(seed=1)))

    def test_the_next_epoch_goes_on_where_the_last_one_stopped(self, tmp_path: Path) -> None:
        (tmp_path / "main.txt").write_text("".join(f"main {i}\n" for i in range(50)))
        (tmp_path / "other.txt").write_text("".join(f"other {i}\n" for i in range(100)))
        corpus = Corpus.parse([f"{tmp_path}/main.txt", f"{tmp_path}/other.txt=0.3"])
        epochs = corpus.epochs(seed=0)
        read = [text for _ in range(12) for text in next(epochs) if text.startswith("other")]
        assert read[:100] == [f"other {i}" for i in range(100)]

    def test_an_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / "main.txt").write_text("one\n" * 100)
        (tmp_path / "other.txt").write_text("\n")
        corpus = Corpus.parse([f"{tmp_path}/main.txt", f"{tmp_path}/other.txt=0.5"])
        with pytest.raises(LindaError, match="no sentence"):
            list(next(corpus.epochs(0)))

    def test_held_out_sentences_are_not_trained_on(self, tmp_path: Path) -> None:
        corpus = _corpus(tmp_path, 50)
        held_out = corpus.hold_out(10)
        assert len(held_out) == 10
        assert not set(held_out) & set(next(corpus.epochs(0)))
        assert len(list(next(corpus.epochs(0)))) == 40


class TestMasking:
    def test_each_word_is_masked_with_the_probability(self) -> None:
        text = " ".join(["word"] * 20_000)
        masked = mask_words(text, 0.1, "<mask>", np.random.default_rng(0)).split()
        assert len(masked) == 20_000
        assert masked.count("<mask>") / 20_000 == pytest.approx(0.1, abs=0.01)

    def test_none_and_all(self) -> None:
        rng = np.random.default_rng(0)
        assert mask_words("a b c", 0.0, "<mask>", rng) == "a b c"
        assert mask_words("  a  b\tc\u00a0d ", 0.0, "<mask>", rng) == "  a  b\tc\u00a0d "
        assert mask_words("  a  b\tc ", 1.0, "<mask>", rng) == "  <mask>  <mask>\t<mask> "
        assert mask_words("a b c", 1.0, "<mask>", rng) == "<mask> <mask> <mask>"

    def test_in_the_input_and_never_in_the_target(self, tmp_path: Path) -> None:
        batches = _take(_sampler(_corpus(tmp_path), mask_probability=0.3), 20)
        inputs = torch.cat([batch.ids_a.flatten() for _, batch in batches])
        targets = torch.cat([batch.targets_a.flatten() for _, batch in batches])
        assert (inputs == MASK).float().mean() == pytest.approx(0.3, abs=0.1)
        assert not (targets == MASK).any()

    def test_is_drawn_afresh_in_every_epoch(self, tmp_path: Path) -> None:
        sampler = _sampler(_corpus(tmp_path, 16), mask_probability=0.5)
        first, second = _take(sampler, 2)
        assert not torch.equal(first[1].ids_a == MASK, second[1].ids_a == MASK)


class TestRestyle:
    def test_makes_texts_unlike_wikipedia(self) -> None:
        text = 'He said: "I couldn\'t see it," and left.'
        styles = {restyle(text, np.random.default_rng(seed)) for seed in range(200)}
        assert text.lower() in styles
        assert text.rstrip(".") in styles
        assert 'he said : " i could n\'t see it , " and left .' in styles
        assert "He said I couldn't see it and left" in styles
        assert any("’" in style for style in styles)
        assert any(style in text and len(style) < 20 for style in styles)

    @pytest.mark.parametrize("text", ["?", "one", "Hi.", "'"])
    def test_never_makes_an_empty_text(self, text: str) -> None:
        for seed in range(100):
            assert restyle(text, np.random.default_rng(seed)).strip()


class TestPairs:
    def test_every_sentence_once_an_epoch_in_random_pairs(self, tmp_path: Path) -> None:
        sampler = _sampler(_corpus(tmp_path, 400))
        for _, start in ((0, 0), (1, 25)):
            batches = _take(sampler, 25, start)
            seen = torch.cat([torch.cat([batch.ids_a[:, 0], batch.ids_b[:, 0]]) for _, batch in batches])
            assert sorted(seen.tolist()) == list(range(400))

    def test_partners_change_from_epoch_to_epoch(self, tmp_path: Path) -> None:
        def pairs(start: int) -> set[tuple[int, int]]:
            batches = [batch for _, batch in _take(_sampler(corpus), 25, start)]
            return {pair for b in batches for pair in zip(b.ids_a[:, 0].tolist(), b.ids_b[:, 0].tolist(), strict=True)}

        corpus = _corpus(tmp_path, 400)
        assert len(pairs(0) & pairs(25)) < 20

    def test_no_text_meets_itself(self, tmp_path: Path) -> None:
        (tmp_path / "twice.txt").write_text("".join(f"{i // 2} {i // 2}\n" for i in range(64)))
        for _, batch in _take(_sampler(Corpus.parse([str(tmp_path / "twice.txt")])), 40):
            assert (batch.ids_a[:, 0] != batch.ids_b[:, 0]).all()

    def test_texts_of_a_side_have_one_length_so_that_nothing_is_padded(self, tmp_path: Path) -> None:
        batches = [batch for _, batch in _take(_sampler(_corpus(tmp_path, 4000)), 200)]
        cells = sum(b.mask_a.numel() + b.mask_b.numel() for b in batches)
        assert sum(b.tokens for b in batches) / cells > 0.99
        widths = {(b.ids_a.shape[1], b.ids_b.shape[1]) for b in batches}
        assert any(width_a != width_b for width_a, width_b in widths)  # otherwise σ would not be trained

    def test_padding_where_it_cannot_be_helped(self, tmp_path: Path) -> None:
        _, batch = _take(_sampler(_corpus(tmp_path, 16)), 1)[0]
        assert (batch.ids_a[batch.mask_a == 0] == PAD).all()
        assert (batch.targets_a[batch.mask_a == 0] == IGNORED).all()
        assert (batch.targets_a[batch.mask_a == 1] == batch.ids_a[batch.mask_a == 1]).all()

    def test_one_ratio_a_minibatch_uniform_over_minibatches(self, tmp_path: Path) -> None:
        alphas = [batch.alpha for _, batch in _take(_sampler(_corpus(tmp_path, 64)), 400)]
        assert all((alpha == alpha[0]).all() for alpha in alphas)
        values = sorted(float(alpha[0]) for alpha in alphas)
        grid = np.linspace(0, 1, len(values))
        assert np.abs(np.array(values) - grid).max() < 0.1

    def test_ratios_from_the_middle(self, tmp_path: Path) -> None:
        sampler = _sampler(_corpus(tmp_path, 64), middle=8.0)
        alphas = [float(batch.alpha[0]) for _, batch in _take(sampler, 100)]
        assert np.std(alphas) < 0.2

    def test_ratios_weighted_by_themselves_where_only_the_first_text_is_a_target(self, tmp_path: Path) -> None:
        sampler = _sampler(_corpus(tmp_path, 64), mirrored=True)
        alphas = [float(batch.alpha[0]) for _, batch in _take(sampler, 400)]
        assert np.mean(alphas) == pytest.approx(2 / 3, abs=0.05)  # Beta(2, 1)

    @pytest.mark.parametrize("window", [2**16, 100])
    def test_starting_at_a_step_equals_going_there(self, tmp_path: Path, window: int) -> None:
        sampler = _sampler(_corpus(tmp_path), mask_probability=0.2, restyled=0.0, window=window)
        through = _take(sampler, 40)
        resumed = _take(sampler, 10, first_step=30)
        assert [step for step, _ in resumed] == list(range(30, 40))
        for (step, one), (other_step, other) in zip(through[30:], resumed, strict=True):
            assert step == other_step
            assert _equal(one, other)

    def test_ranks_share_the_sentences_and_draw_their_own_ratios(self, tmp_path: Path) -> None:
        corpus = _corpus(tmp_path, 400)
        by_rank = [_take(_sampler(corpus, rank=rank, ranks=2), 12) for rank in range(2)]
        seen = [{i for _, b in batches for i in b.ids_a[:, 0].tolist() + b.ids_b[:, 0].tolist()} for batches in by_rank]
        assert not seen[0] & seen[1]
        assert by_rank[0][0][1].alpha[0] != by_rank[1][0][1].alpha[0]

    def test_a_corpus_smaller_than_a_minibatch(self, tmp_path: Path) -> None:
        (_, batch), *_ = _take(_sampler(_corpus(tmp_path, 5)), 3)
        assert batch.ids_a.shape[0] == 2

    def test_a_last_window_too_small_for_a_pair_is_left_out(self, tmp_path: Path) -> None:
        steps = [step for step, _ in _take(_sampler(_corpus(tmp_path, 9), window=8), 12)]
        assert steps == list(range(12))

    def test_a_corpus_of_one_sentence(self, tmp_path: Path) -> None:
        with pytest.raises(LindaError, match="too small"):
            _take(_sampler(_corpus(tmp_path, 1)), 1)

    def test_touches_no_global_random_state(self, tmp_path: Path) -> None:
        torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()
        _take(_sampler(_corpus(tmp_path), mask_probability=0.2), 5)
        assert torch.equal(torch_before, torch.get_rng_state())
        assert json.dumps(numpy_before[1].tolist()) == json.dumps(np.random.get_state()[1].tolist())
