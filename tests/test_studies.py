"""The studies are commands that `linda bench` accepts, and a larger size includes a smaller one."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from linda.benchmark.recipes import parse_recipe
from linda.benchmark.settings import BenchmarkSettings
from linda.cli.bench import command
from linda.evaluation.metrics import find_metric
from studies import SIZES, STUDIES, Part, main, parts_of


def parsed(part: Part) -> dict[str, Any]:
    return command.make_context("bench", part.arguments(Path("tasks"), Path("work"), [])).params


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("size", SIZES)
def test_every_part_is_a_command(study: str, size: str) -> None:
    parts = parts_of(study, size)
    assert parts
    for part in parts:
        given = parsed(part)
        settings = BenchmarkSettings(student=given["student"], teacher=given["teacher"], folds=given["folds"])
        for recipe in map(parse_recipe, given["methods"].split(",")):
            recipe.check_student(settings.kind, settings.folds_of(recipe))
            assert given["unlabelled"] is not None or not recipe.uses_unlabelled
        assert given["baseline"] in given["methods"].split(",")
        assert any(name.startswith("linda") for name in given["methods"].split(","))
        find_metric(given["metric"])


@pytest.mark.parametrize("study", STUDIES)
def test_a_larger_size_computes_the_cells_of_a_smaller_one(study: str) -> None:
    def cells(part: Part) -> set[tuple[str, ...]]:
        given = parsed(part)
        draws = (given["shots"] or given["imbalance"]).split(",")
        noises = (given["label_noise"] or "0").split(",")
        tasks = given["tasks"].split(",")
        return {
            (part.folder, task, draw, noise, given["methods"], str(seed))
            for task in tasks
            for draw in draws
            for noise in noises
            for seed in range(given["seeds"])
        }

    small, medium, full = (set[tuple[str, ...]]().union(*map(cells, parts_of(study, size))) for size in SIZES)
    assert small < medium < full


@pytest.mark.parametrize(
    ("study", "baselines"),
    [
        ("imbalance", {"class-weights", "oversample"}),
        ("calibration", {"label-smoothing", "temperature"}),
        ("noise", {"label-smoothing", "early-stopping", "eda+keep=0.5"}),
        (
            "teacher",
            {
                "vanilla",
                "pseudo-label+per_row=8",
                "eda+labels=predicted+per_row=8",
                "eda&linda+partners=any+labels=predicted+per_row=8",
            },
        ),
        (
            "unlabelled",
            {
                "pseudo-label+per_row=4",
                "pseudo-label+per_row=24",
                "eda+pseudo_rows=4+labels=predicted+per_row=4",
                "linda+partners=unlabelled+labels=predicted+per_row=4",
            },
        ),
        ("shift", {"vanilla", "temperature", "label-smoothing"}),
    ],
)
def test_the_baselines_that_must_be_beaten(study: str, baselines: set[str]) -> None:
    for size in SIZES:
        for part in parts_of(study, size):
            assert baselines <= set(part.options["methods"].split(","))


@pytest.mark.parametrize("study", STUDIES)
def test_a_table_of_trigrams_adds_crossovers(study: str) -> None:
    plain, ranked = parts_of(study, "full"), parts_of(study, "full", trigrams=Path("trigrams.npz"))
    for before, after in zip(plain, ranked, strict=True):
        methods = parsed(after)["methods"].split(",")
        spliced = [name for name in methods if name.startswith("splice")]
        assert [name for name in methods if not name.startswith("crossover")] == before.options["methods"].split(",")
        for name in spliced:
            assert methods[methods.index(name) + 1] == name.replace("splice", "crossover")
        assert parsed(after)["trigrams"] == ("trigrams.npz" if spliced else None)


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("size", SIZES)
def test_quick_students_have_25_seeds_and_rare_classes_tuned_thresholds(study: str, size: str) -> None:
    for part in parts_of(study, size):
        given = parsed(part)
        settings = BenchmarkSettings(student=given["student"], folds=given["folds"])
        assert settings.kind.trains_encoder or given["seeds"] >= 25
        assert settings.n_folds > 0 or study != "imbalance"


def test_commands_are_printed_with_an_estimate_and_then_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tasks" / "sst2"
    folder.mkdir(parents=True)
    lines = [f'{{"text": "the {n} film is {c}", "label": "{c}"}}\n' for n in range(12) for c in ("good", "bad")]
    for split in ("train", "validation"):
        (folder / f"{split}.jsonl").write_text("".join(lines))
    work = tmp_path / "work"
    places = ["--data", str(tmp_path / "tasks"), "--work", str(work)]
    few = ["--", "--tasks", "sst2", "--methods", "vanilla,splice+balance", "--shots", "4", "--student", "tfidf"]
    few += ["--baseline", "vanilla", "--metric", "accuracy", "--workers", "1", "--seeds", "2"]
    assert main(["--study", "calibration", *places, "--dry-run", *few]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "$ linda bench --tasks trec-coarse,sst2 --shots 10 --seeds 5 --methods vanilla,label-smooth"
    )
    assert "4 of 4 cells are missing: about 0.0 hours" in shown
    assert not work.exists()
    started = []
    monkeypatch.setattr(
        subprocess, "run", lambda line, **_: started.append(line) or subprocess.CompletedProcess(line, 0)
    )
    assert main(["--study", "calibration", *places, *few]) == 0
    assert [line[2:4] for line in started] == [["linda", "bench"]]
    assert started[0][-len(few) + 1 :] == few[1:]
    assert main(["--study", "noise", "--data", str(tmp_path / "nowhere"), "--work", str(work)]) == 2
    assert "there is no folder" in capsys.readouterr().err
