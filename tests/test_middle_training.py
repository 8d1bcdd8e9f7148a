"""Training on middles: minibatches, and `linda train --middles` from end to end."""

import dataclasses
import gzip
import json
import math
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from linda.cli import main
from linda.config import LindaConfig
from linda.errors import LindaError
from linda.interpolation import Interpolator
from linda.model import LindaModel
from linda.training import TrainingSettings, resumed_settings, train
from linda.training import loop as loop_module
from linda.training.corpus import Corpus
from linda.training.data import TrainingData, middle_sampler, minibatches, split_middles, tokenizer
from linda.training.middle_batches import MiddleBatch, MiddlePair, MiddleSampler, read_middles, shard_files
from linda.training.pair_batches import PairBatch, TextBatch
from linda.training.validation import validate_middles
from tiny_models import save_tiny_bart, save_tiny_t5

SUBJECTS = ("the cat", "the old dog", "a small man", "the woman", "a red river", "who")
ENDS = ("sat in the city", "ran on the river", "saw the old city of the man", "was in the small city")


def _middles(count: int, shift: int = 0) -> list[dict[str, Any]]:
    rows = []
    for number in range(shift, shift + count):
        a = f"{SUBJECTS[number % 6]} {ENDS[number % 4]} {number}"
        b = f"{SUBJECTS[(number + 1) % 6]} {ENDS[(number + 2) % 4]} {number + 1}"
        for share in (0.25, 0.75):
            target = " ".join(a.split()[:3] + b.split()[3:])
            # The same crossover later, and the other text alone: by the runs of chunks that they keep.
            n, m = len(a.split()), len(b.split())
            others = [[-1.3, 0.4, 0, 0, 2, 1, 2, m], [-1.6, 0.6, 1, 0, 2, 0, 3, n]]
            rows.append({"a": a, "b": b, "alpha": share, "share": 0.5, "target": target, "score": -1, "others": others})
    return rows


def write_shard(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of 10 pairs each, with two middles per pair."""
    for number in range(3):
        write_shard(tmp_path / "middles" / f"middles-{number:05d}.jsonl.gz", _middles(10, 10 * number))
    return tmp_path / "middles"


@pytest.fixture
def sampler(folder: Path, tiny_model: LindaModel) -> MiddleSampler:
    settings = TrainingSettings(middles=(str(folder),), config=LindaConfig(mixing="attention"), pairs=4, seed=5)
    return middle_sampler(tiny_model, shard_files(settings.middles), settings)


def take(sampler: MiddleSampler, count: int, first_step: int = 0) -> list[MiddleBatch]:
    stream = sampler.batches(first_step)
    return [next(stream) for _ in range(count)]


def same(x: list[MiddleBatch], y: list[MiddleBatch]) -> bool:
    return all(vars(a)[name].equal(vars(b)[name]) for a, b in zip(x, y, strict=True) for name in vars(a))


class TestMinibatches:
    def test_are_those_of_the_seed(self, sampler: MiddleSampler) -> None:
        assert same(take(sampler, 20), take(sampler, 20))
        ratios, others = (
            [batch.alpha.tolist() for batch in take(dataclasses.replace(sampler, seed=seed), 20)] for seed in (5, 6)
        )
        assert ratios != others

    @pytest.mark.parametrize("step", [1, 6, 7, 8, 15])
    def test_from_any_step_on_are_those_of_a_whole_run(self, sampler: MiddleSampler, step: int) -> None:
        """An epoch is 7 minibatches: 30 pairs, four at a time."""
        assert same(take(sampler, 5, step), take(sampler, step + 5)[step:])

    def test_two_processes_share_the_pairs_out(self, sampler: MiddleSampler, tiny_model: LindaModel) -> None:
        ranks = [take(dataclasses.replace(sampler, rank=rank, ranks=2, mask_probability=0.0), 3) for rank in (0, 1)]
        seen = [
            {frozenset(pair) for batch in batches for pair in zip(*texts_of(tiny_model, batch), strict=True)}
            for batches in ranks
        ]
        assert len(seen[0]) == len(seen[1]) == 12
        assert not seen[0] & seen[1]

    def test_rows_say_what_share_of_the_first_text_they_have(
        self, sampler: MiddleSampler, tiny_model: LindaModel, folder: Path
    ) -> None:
        """With either text first, and with copies at the ends."""
        stored = {
            (pair.a, pair.b): {row.alpha: row.candidates[0].target for row in pair.rows}
            for path in shard_files([str(folder)])
            for pair in read_middles(path)
        }
        swapped, ends = 0, {0.0: 0, 1.0: 0}
        for batch in take(dataclasses.replace(sampler, candidates=1, mask_probability=0.0), 14):
            texts_a, texts_b = texts_of(tiny_model, batch)
            targets = tiny_model.detokenize(batch.targets.clamp_min(0).tolist())
            for pair, alpha, target in zip(batch.pair.tolist(), batch.alpha.tolist(), targets, strict=True):
                a, b = texts_a[pair], texts_b[pair]
                if alpha in ends:
                    ends[alpha] += 1
                    assert target == (a if alpha else b)
                elif (a, b) in stored:
                    assert target == stored[a, b][alpha]
                else:
                    swapped += 1
                    assert target == stored[b, a][1 - alpha]
        assert swapped > 10
        assert min(ends.values()) > 3

    def test_ends_are_as_frequent_as_asked(self, sampler: MiddleSampler) -> None:
        for ends, expected in ((0.0, 2.0), (1.0, 3.0)):
            batches = take(dataclasses.replace(sampler, candidates=1, ends=ends), 7)
            assert sum(len(batch.alpha) for batch in batches) == expected * 28

    def test_a_row_has_the_best_candidate_and_some_of_the_others(
        self, sampler: MiddleSampler, tiny_model: LindaModel
    ) -> None:
        """With weights that follow the language model; copies at the ends have no rival."""
        seen = set()
        for batch in take(dataclasses.replace(sampler, candidates=2, mask_probability=0.0), 14):
            a, b = ([text.split() for text in texts] for texts in texts_of(tiny_model, batch))
            targets = [text.split() for text in tiny_model.detokenize(batch.targets.clamp_min(0).tolist())]
            for number in range(int(batch.row.max()) + 1):
                rows = (batch.row == number).nonzero().flatten().tolist()
                pair, alpha = batch.pair[rows[0]], batch.alpha[rows[0]].item()
                assert batch.weight[rows].sum().item() == pytest.approx(1)
                assert batch.alpha[rows].tolist() == [alpha] * len(rows)
                assert len(rows) == (1 if alpha in (0, 1) else 2)
                if len(rows) == 1:
                    continue
                best, other = (targets[row] for row in rows)
                scores = {}
                for x, y in ((a[pair], b[pair]), (b[pair], a[pair])):  # the texts may be exchanged
                    if best == x[:3] + y[3:]:
                        scores = {" ".join(x[:2] + y[2:]): -1.3, " ".join(y[:2] + x[3:]): -1.6}
                gap = scores[" ".join(other)] + 1
                seen.add(gap)
                weights = batch.weight[rows].tolist()
                assert math.log(weights[1] / weights[0]) == pytest.approx(gap / 0.15, rel=1e-4)
        assert len(seen) == 2

    def test_without_rivals_only_the_best_is_learnt(self, sampler: MiddleSampler) -> None:
        for batch in take(dataclasses.replace(sampler, candidates=1), 5):
            assert batch.row.tolist() == list(range(len(batch.row)))
            assert batch.weight.tolist() == [1.0] * len(batch.row)

    def test_inputs_are_masked_and_targets_are_not(self, sampler: MiddleSampler, tiny_model: LindaModel) -> None:
        [batch] = take(dataclasses.replace(sampler, mask_probability=1.0), 1)
        mask = tiny_model.tokenizer.mask_token_id
        assert (batch.ids_a == mask).any(dim=1).all()
        assert (batch.ids_b == mask).any(dim=1).all()
        assert not (batch.targets == mask).any()

    def test_too_few_pairs_are_refused(self, sampler: MiddleSampler) -> None:
        with pytest.raises(LindaError, match="too few middles: 100 pairs"):
            take(dataclasses.replace(sampler, pairs=100), 1)


def texts_of(model: LindaModel, batch: MiddleBatch) -> tuple[list[str], list[str]]:
    return model.detokenize(batch.ids_a.tolist()), model.detokenize(batch.ids_b.tolist())


def _line(**changed: Any) -> str:
    return json.dumps(_middles(1)[0] | changed)


class TestFiles:
    @pytest.mark.parametrize(
        "line",
        [
            "no json",
            "[]",
            "3",
            '{"a": "x", "b": "y", "target": "z"}',
            _line(alpha="half"),
            _line(alpha=1.5),
            _line(alpha=math.nan),
            _line(target=None),
            _line(a=""),
            _line(score="good"),
            _line(others=3),
            _line(others=[[]]),
            _line(others=[["x", 0.5, 0, 0, 1]]),
            _line(others=[[-1, 0.5, 0, 0]]),
            _line(others=[[-1, 0.5, 2, 0, 1]]),
            _line(others=[[-1, 0.5, 0, 0, 9]]),
        ],
    )
    def test_a_damaged_line_is_named(self, tmp_path: Path, line: str) -> None:
        path = tmp_path / "middles-00000.jsonl.gz"
        with gzip.open(path, "wt") as file:
            file.write(json.dumps(_middles(1)[0]) + "\n" + line + "\n")
        with pytest.raises(LindaError, match=r"middles-00000.jsonl.gz, line 2: not a middle; create the file again"):
            read_middles(path)

    def test_a_file_that_was_cut_off_is_named(self, folder: Path) -> None:
        path = folder / "middles-00001.jsonl.gz"
        path.write_bytes(path.read_bytes()[:-40])
        with pytest.raises(LindaError, match=r"middles-00001.jsonl.gz"):
            read_middles(path)

    def test_a_folder_without_any_says_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(LindaError, match=r"there are no middles in .*; create them with `linda middles make`"):
            shard_files([str(tmp_path), str(tmp_path / "missing")])

    def test_the_last_of_several_files_is_held_out(self, folder: Path) -> None:
        settings = TrainingSettings(middles=(str(folder),), config=LindaConfig(mixing="attention"))
        files, held_out = split_middles(settings)
        assert [path.name for path in files] == ["middles-00000.jsonl.gz", "middles-00001.jsonl.gz"]
        assert held_out == read_middles(folder / "middles-00002.jsonl.gz")
        for path in files:
            path.unlink()
        assert split_middles(settings) == ([folder / "middles-00002.jsonl.gz"], [])


def test_validation_is_the_log_likelihood_of_all_middles(tiny_base_folder: Path, folder: Path, monkeypatch) -> None:
    model = LindaModel.from_seq2seq(tiny_base_folder)
    model.mix_by_attention()
    pairs: list[MiddlePair] = read_middles(folder / "middles-00000.jsonl.gz")
    tokenize = tokenizer(model, TrainingSettings(middles=(str(folder),), config=LindaConfig(mixing="attention")))
    model.train()
    figure = validate_middles(model, pairs, tokenize)
    assert model.training
    monkeypatch.setattr("linda.training.validation._MIDDLES_BATCH", 3)
    assert validate_middles(model, pairs, tokenize) == pytest.approx(figure, rel=1e-5)
    one = [validate_middles(model, [pair], tokenize) for pair in pairs]
    for name, value in figure.items():
        values = [figures[name] for figures in one]
        assert min(values) < value < max(values)
    assert figure["middle_choice"] == pytest.approx(sum(figures["middle_choice"] for figures in one) / len(one))


# ---------------------------------------------------------------- training


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{subject} {end}\n" for subject in SUBJECTS for end in ENDS))
    return str(path)


@pytest.fixture
def settings(folder: Path, tiny_base_folder: Path) -> TrainingSettings:
    return TrainingSettings(
        middles=(str(folder),),
        config=LindaConfig(mixing="attention", max_length=64),
        base=str(tiny_base_folder),
        steps=7,
        pairs=4,
        learning_rate=3e-3,
        dropout=0.1,
        hold_out=4,
        validate_every=4,
        checkpoint_every=2,
    )


@pytest.fixture
def by_attention(tiny_base_folder: Path) -> LindaModel:
    model = LindaModel.from_seq2seq(tiny_base_folder)
    model.mix_by_attention()
    return model


ONE_PROCESS = SimpleNamespace(process_index=0, num_processes=1)


@pytest.mark.parametrize(
    ("pair_share", "text_share"), [(0.0, 0.0), (0.2, 0.0), (0.29, 0.3), (0.1, 0.6), (0.5, 0.5), (0.0, 1.0)]
)
def test_minibatches_of_all_kinds_are_spread_evenly(
    settings: TrainingSettings, corpus: str, by_attention: LindaModel, pair_share: float, text_share: float
) -> None:
    settings = settings.changed(pair_share=pair_share, text_share=text_share, corpus=(corpus,))
    data = TrainingData(Corpus.parse([corpus]), [], shard_files(settings.middles), [])

    def kinds(first_step: int, count: int) -> list[type]:
        stream = minibatches(by_attention, data, settings, first_step, ONE_PROCESS)
        return [type(next(stream)) for _ in range(count)]

    whole = kinds(0, 60)
    for end in range(1, 61):
        for kind, share in ((PairBatch, pair_share), (TextBatch, text_share)):
            assert abs(whole[:end].count(kind) - share * end) < 2
    assert kinds(23, 37) == whole[23:]


def test_without_middles_a_model_by_attention_still_reads_plain_texts(
    settings: TrainingSettings, corpus: str, by_attention: LindaModel, tiny_model: LindaModel
) -> None:
    settings = settings.changed(middles=(), text_share=0.25, corpus=(corpus,))
    data = TrainingData(Corpus.parse([corpus]), [], [], [])
    for model, texts in ((by_attention, 5), (tiny_model, 0)):
        stream = minibatches(model, data, settings, 0, ONE_PROCESS)
        kinds = [type(next(stream)) for _ in range(20)]
        assert (kinds.count(TextBatch), kinds.count(PairBatch)) == (texts, 20 - texts)


def test_texts_are_the_sentences_of_the_corpus(
    settings: TrainingSettings, corpus: str, by_attention: LindaModel
) -> None:
    settings = settings.changed(pair_share=0.0, text_share=1.0, mask_probability=1.0, corpus=(corpus,))
    data = TrainingData(Corpus.parse([corpus]), [], shard_files(settings.middles), [])
    stream = minibatches(by_attention, data, settings, 0, ONE_PROCESS)
    read = [text for _ in range(6) for text in by_attention.detokenize(next(stream).texts.clamp_min(0).tolist())]
    assert len(read) == 6 * 2 * settings.pairs
    assert {*read} <= {*Path(corpus).read_text().splitlines()}


@pytest.mark.parametrize(("texts", "processes"), [(0, 1), (12, 1), (12, 3)])
def test_a_minibatch_of_texts_has_the_size_asked_for(
    settings: TrainingSettings, corpus: str, by_attention: LindaModel, texts: int, processes: int
) -> None:
    """Other minibatches keep theirs; all processes share the sentences."""
    settings = settings.changed(middles=(), text_share=0.5, corpus=(corpus,), texts=texts, pairs=3)
    data = TrainingData(Corpus.parse([corpus]), [], [], [])
    rank = SimpleNamespace(process_index=processes - 1, num_processes=processes)
    sizes: dict[type, set[int]] = {TextBatch: set(), PairBatch: set()}
    stream = minibatches(by_attention, data, settings, 0, rank)
    for _ in range(6):
        batch = next(stream)
        sizes[type(batch)].add(len(next(iter(vars(batch).values()))))
    assert sizes == {TextBatch: {(texts or 6) // processes}, PairBatch: {3 // processes}}


def test_texts_that_cannot_be_shared_are_refused(settings: TrainingSettings) -> None:
    settings = settings.changed(texts=9)
    with pytest.raises(LindaError, match=r"texts is 9, which 1 processes .* multiple of 2 texts \(--texts\)"):
        settings.texts_per_process(1)


def test_pairs_and_middles_go_on_where_they_were(
    settings: TrainingSettings, corpus: str, by_attention: LindaModel
) -> None:
    settings = settings.changed(pair_share=0.4, corpus=(corpus,))
    data = TrainingData(Corpus.parse([corpus]), [], shard_files(settings.middles), [])
    whole, later = (minibatches(by_attention, data, settings, step, ONE_PROCESS) for step in (0, 9))
    for _ in range(9):
        next(whole)
    for _ in range(12):
        expected, given = vars(next(whole)), vars(next(later))
        assert expected.keys() == given.keys()
        assert all(tensor.equal(given[name]) for name, tensor in expected.items())


@pytest.mark.parametrize("beside", ["middles alone", "with a corpus", "a corpus that comes late"])
def test_an_interrupted_run_goes_on_as_if_never_stopped(
    settings: TrainingSettings, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    """Identical to the last bit. Some weights are used by one kind of minibatch only, and have no moments before."""
    if beside != "middles alone":
        share = 0.5 if beside == "with a corpus" else 0.2
        settings = settings.changed(corpus=(corpus,), pair_share=share)
    train(settings, tmp_path / "whole")
    update = loop_module._update

    def update_and_interrupt(*arguments):
        if arguments[-1] == 2:  # the third update
            os.kill(os.getpid(), signal.SIGINT)
        return update(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "_update", update_and_interrupt)
        with pytest.raises(LindaError, match="stopped after step 3"):
            train(settings, tmp_path / "parts")
    train(resumed_settings(tmp_path / "parts", None), tmp_path / "parts", resume=True)
    assert (tmp_path / "parts" / "config.json").read_bytes() == (tmp_path / "whole" / "config.json").read_bytes()
    whole, parts = (load_file(tmp_path / run / "model.safetensors") for run in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    for name, tensor in whole.items():
        assert tensor.equal(parts[name]), name
    logs = [
        [json.loads(line) for line in (tmp_path / f"{run}.training" / "log.jsonl").read_text().splitlines()]
        for run in ("whole", "parts")
    ]
    for log in logs:
        for entry in log:
            entry.pop("tokens_per_second", None)
    assert logs[0] == logs[1]
    reports = [entry["validation"] for entry in logs[0] if "validation" in entry]
    assert len(reports) == 2
    assert all("middle_loss_per_token" in report for report in reports)
    assert all(("precision_a" in report) == (beside != "middles alone") for report in reports)


def test_middles_are_learnt(settings: TrainingSettings, tmp_path: Path) -> None:
    output = tmp_path / "model"
    train(settings.changed(steps=60, dropout=0.0, validate_every=30), output)
    lines = (tmp_path / "model.training" / "log.jsonl").read_text().splitlines()
    losses = [entry["loss_per_token"] for entry in map(json.loads, lines) if "loss" in entry]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    model = LindaModel.from_pretrained(output)
    assert model.attention_mixing is not None
    assert model.attention_mixing.control.norm() > 0
    assert model.attention_mixing.sources.norm() > 0


@pytest.mark.parametrize("save_base", [save_tiny_bart, save_tiny_t5])
def test_bases_of_other_families_are_trained_and_mix(save_base, settings: TrainingSettings, tmp_path: Path) -> None:
    base = save_base(tmp_path / "base")
    train(settings.changed(base=str(base), steps=3), tmp_path / "model")
    linda = Interpolator.from_pretrained(tmp_path / "model", device="cpu")
    assert linda.config.mixing == "attention"
    a, b = "the cat sat in the old city", "who saw a red dog on the river"
    between = linda.mix(a, b, 0.5)
    assert set(between.split()) <= set(a.split()) | set(b.split())
    assert set(between.split()) & set(a.split())
    assert set(between.split()) & set(b.split())
    assert [linda.mix(a, b, end) for end in (1.0, 0.0)] == [a, b]
    assert all(math.isfinite(score) for score in linda.scores([a, between, b]))


class TestCommandLine:
    def run(self, *arguments: str) -> Any:
        return CliRunner().invoke(main, ["train", *arguments])

    def options(self, settings: TrainingSettings, output: Path) -> list[str]:
        options = ["--middles", settings.middles[0], "--base", settings.base, "--output", str(output)]
        return [*options, "--steps", "2", "--pairs", "4", "--hold-out", "4", "--softmax-sample", "0"]

    @pytest.mark.parametrize("with_corpus", [False, True])
    def test_trains_a_model_that_mixes_by_attention(
        self, settings: TrainingSettings, corpus: str, tmp_path: Path, with_corpus: bool
    ) -> None:
        output = tmp_path / "model"
        result = self.run(*([corpus] if with_corpus else []), *self.options(settings, output))
        assert result.exit_code == 0, result.output
        linda = Interpolator.from_pretrained(output)
        assert linda.config.mixing == "attention"
        assert linda.attention_mixing is not None
        assert linda.config.calibration == [(0.0, 0.0), (1.0, 1.0)]
        assert linda.mix("the cat", "a dog", 1.0) == "the cat"

    def test_more_training_on_sentences_keeps_what_a_model_can_do(
        self, settings: TrainingSettings, corpus: str, tmp_path: Path
    ) -> None:
        train(settings.changed(steps=2), tmp_path / "first")
        train(
            settings.changed(steps=1, middles=(), mixing="states", corpus=(corpus,), base=str(tmp_path / "first")),
            tmp_path / "second",
        )
        first, second = (LindaModel.from_pretrained(tmp_path / name) for name in ("first", "second"))
        assert second.config.mixing == "attention"
        assert second.attention_mixing.control.equal(first.attention_mixing.control)

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["--middles", "EMPTY", "--base", "BASE"], "create them with `linda middles make`"),
            (["--middles", "MISSING", "--base", "BASE"], "create them with `linda middles make`"),
            (["--middles", "MIDDLES", "--base", "BASE", "--mixing", "states"], "--mixing attention"),
            (["--middles", "MIDDLES", "--base", "BASE", "--pair-share", "1.5"], "pair_share is 1.5"),
            (["--middles", "MIDDLES", "--base", "BASE", "--ends", "-1"], "ends is -1"),
            (["--middles", "MIDDLES", "--base", "BASE", "--pairs", "500"], "too few middles: 500"),
            (["--middles", "MIDDLES", "--resume"], "middles"),
        ],
    )
    def test_bad_input_is_one_line(
        self, arguments: list[str], expected: str, settings: TrainingSettings, tmp_path: Path
    ) -> None:
        (tmp_path / "empty").mkdir()
        names = {
            "EMPTY": str(tmp_path / "empty"),
            "MISSING": str(tmp_path / "missing"),
            "MIDDLES": settings.middles[0],
            "BASE": settings.base,
        }
        result = self.run(*(names.get(name, name) for name in arguments), "-o", str(tmp_path / "model"))
        assert result.exit_code == 2
        assert expected in result.stderr
        assert len([line for line in result.stderr.strip().splitlines() if line.startswith("linda")]) == 1


def test_a_damaged_file_stops_the_run_with_its_name(settings: TrainingSettings, folder: Path, tmp_path: Path) -> None:
    with gzip.open(folder / "middles-00000.jsonl.gz", "at") as file:
        file.write("{}\n")
    with pytest.raises(LindaError, match=r"middles-00000.jsonl.gz, line 21"):
        train(settings, tmp_path / "model")


def test_the_state_of_the_optimizer_is_that_of_the_weights_used(settings: TrainingSettings, tmp_path: Path) -> None:
    train(settings.changed(steps=2), tmp_path / "model")
    moments = load_file(tmp_path / "model.training" / "step-0000002" / "optimizer.safetensors")
    assert "exp_avg.attention_mixing.control" in moments
    assert not any(name.endswith("converter.log_sigma") for name in moments)
    assert all(torch.isfinite(tensor).all() for tensor in moments.values())
