from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from linda.cli import main
from linda.cli.bench import _command_line
from tiny_encoder import save_tiny_bert

GOOD = "text,label\n" + "".join(f"the film {n} is good,pos\na bad film {n},neg\n" for n in range(10))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_bert(tmp_path_factory.mktemp("tiny") / "bert"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "my.csv").write_text(GOOD)
    (tmp_path / "my_test.csv").write_text(GOOD)
    return tmp_path


def bench(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", "--output", str(folder / "out"), "--workers", "1", *arguments])


def own(folder: Path, *arguments: str) -> Result:
    return bench(folder, "--train", str(folder / "my.csv"), "--test", str(folder / "my_test.csv"), *arguments)


def test_anyones_own_data(files: Path, encoder: str) -> None:
    settings = ["--methods", "vanilla,eda", "--shots", "3", "--seeds", "2", "--epochs", "1", "--encoder", encoder]
    result = own(files, *settings, "--learning-rate", "1e-2")
    assert result.exit_code == 0, result.output
    assert "On my (3-shot):" in result.stdout
    assert "report.md" in result.stdout
    assert len(list((files / "out" / "cells").glob("*.json"))) == 4
    assert (files / "out" / "commands.txt").read_text().count("\n") == 1
    assert {"report.md", "results.csv", "accuracy.png", "gain.png"} <= {file.name for file in (files / "out").iterdir()}
    again = bench(files)  # only the report
    assert again.exit_code == 0
    assert "On my (3-shot):" in again.stdout


def test_a_file_that_changed_between_two_runs_is_read_again(files: Path) -> None:
    settings = ["--student", "tfidf", "--methods", "vanilla", "--shots", "3", "--seeds", "1", "--folds", "0"]
    assert own(files, *settings).exit_code == 0
    (files / "my.csv").write_text(GOOD.replace("good", "fine"))
    result = own(files, *settings, "--seeds", "2")
    assert result.exit_code == 2
    assert "has cells with data" in result.stderr


def test_an_unknown_encoder_has_its_rate_searched(files: Path, encoder: str) -> None:
    result = own(files, "--methods", "vanilla", "--shots", "3", "--seeds", "1", "--epochs", "1", "--encoder", encoder)
    assert result.exit_code == 0, result.output
    assert "; using " in result.stderr
    accuracy = (files / "out" / "rates" / "accuracy.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in accuracy] == ["learning_rate", "1e-05", "3e-05", "0.0001", "0.0003"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "vanilla,magic"], "unknown method 'magic'; choose from vanilla, class-weights"),
        (["--shots", "50"], "the class 'neg' has 10 rows to draw 50 from"),
        (["--shots", "5²"], "--shots is '5²'; give whole numbers from 1"),
        (["--shots", "few"], "--shots is 'few'; give whole numbers from 1"),
        (["--shots", "5", "--train-size", "10"], "give --shots or --train-size, not both"),
        (["--learning-rate", "fast"], "--learning-rate is 'fast'"),
        (["--label", "stars"], "there is no column 'stars'; the data has 'text', 'label'"),
        (["--tasks", "sst2"], "not both"),
        (["--methods", "backtranslation"], "needs two translation models"),
    ],
)
def test_bad_input_is_one_line(files: Path, arguments: list[str], message: str) -> None:
    result = own(files, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--baseline", "zz"], "there are no cells of 'zz' (--baseline); there are eda, vanilla"),
        (["--metric", "recall:zz"], "'zz' is not a rare class (--metric recall:zz); no class is rare"),
        (["--metric", "recall:zz", "--imbalance", "2:4"], "'zz' is not a rare class (--metric recall:zz); the rare classes are neg, pos"),  # noqa: E501
        (["--metric", "macro_f1_tuned"], "--metric macro_f1_tuned needs a threshold tuned on folds"),
        (["--metric", "recall:pos", "--imbalance", "2:4", "--rare", "neg"], "the rare classes are neg"),
    ],
)  # fmt: skip
def test_what_no_cell_will_have_is_told_before_any_is_computed(
    files: Path, encoder: str, arguments: list[str], message: str
) -> None:
    result = own(files, "--methods", "vanilla,eda", "--seeds", "1", "--encoder", encoder, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (files / "out").exists()


def test_nothing_is_searched_for_what_cannot_be(files: Path, encoder: str) -> None:
    for arguments, message in (
        (["--methods", "vanilla,backtranslation"], "needs two translation models"),
        (["--shots", "50"], "the class 'neg' has 10 rows to draw 50 from"),
        (["--shots", "1"], "my (1-shot): no two of the drawn rows have the same label, but linda mixes such rows"),
    ):
        result = own(files, "--encoder", encoder, *arguments)
        assert message in result.stderr
        assert not (files / "out").exists()


def test_bad_tasks_are_one_line(tmp_path: Path) -> None:
    for arguments, message in (
        (["--tasks", "trek"], "unknown task 'trek'; choose from trec-coarse"),
        (["--tasks", "sst2", "--data", str(tmp_path)], "'sst2' needs"),
        (["--tasks", "sst2", "--pair", "other"], "--pair names a column of your own files"),
        (["--methods", "eda"], "--methods needs data: --tasks, --paper, or --train and --test"),
        (["--seeds", "9"], "--seeds needs data"),
        (["--paper", "full", "--label", "stars"], "--label names a column of your own files"),
        (["--tasks", "sst2", "--profile", "paper"], "--profile has no effect without --paper"),
        (["--train", "a.csv", "--test", "a.csv", "--data", "."], "--data is a folder of named tasks"),
        (["--train", "my.csv"], "both --train FILE and --test FILE"),
        ([], "there are no results"),
    ):
        result = bench(tmp_path, *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_train_size_changes_an_experiment_of_shots(tmp_path: Path) -> None:
    result = bench(tmp_path, "--paper", "low-resource", "--train-size", "100", "--tasks", "sst2", "--data", "nowhere")
    assert "there is no folder 'nowhere'" in result.stderr


def test_the_command_is_kept_without_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = ",".join(f"linda+per_row={n}" for n in range(1, 40))
    output = str(tmp_path / "not" / "yet" / "there")
    arguments = ["bench", "--data", str(tmp_path), "--methods", long, f"--train={tmp_path}", "--output"]
    monkeypatch.setattr("sys.argv", ["linda", *arguments, output])
    name = tmp_path.name
    assert _command_line() == f"linda bench --data {name} --methods {long} --train={name} --output there"
    monkeypatch.setattr("sys.argv", ["linda", "bench", f"--output={output}", "--cache", output])
    assert _command_line() == "linda bench --output=there --cache there"


def test_unseen_label_in_the_test_file(files: Path) -> None:
    (files / "my_test.csv").write_text(GOOD + "so so,neutral\n")
    result = own(files)
    assert result.exit_code == 2
    assert "row 20 of the test set has the label 'neutral', which the training rows do not have" in result.stderr


def test_rare_classes_with_a_quick_student(files: Path) -> None:
    result = own(
        files, "--student", "tfidf", "--imbalance", "3:8", "--seeds", "3", "--metric", "macro_f1_tuned",
        "--methods", "vanilla,class-weights,oversample,smote,eda+balance,temperature", "--folds", "3",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "On my (3:8 neg, 3:8 pos):" in result.stdout
    report = (files / "out" / "report.md").read_text()
    assert "## macro_f1_tuned in percent: mean ± standard deviation over 3 seeds" in report
    assert "| method | accuracy | accuracy_tuned | macro_f1 | macro_f1_tuned |" in report
    assert "recall:neg" in report
    again = bench(files, "--metric", "auc", "--baseline", "oversample")
    assert again.exit_code == 0, again.output
    assert "## auc in percent" in (files / "out" / "report.md").read_text()


def test_quick_students_have_25_seeds(files: Path) -> None:
    result = own(files, "--student", "tfidf", "--shots", "5", "--methods", "vanilla", "--folds", "0")
    assert result.exit_code == 0, result.output
    assert len(list((files / "out" / "cells").glob("*.json"))) == 25


def test_a_pipeline_of_ones_own(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "my_student.py").write_text(
        "from sklearn.feature_extraction.text import HashingVectorizer\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "from sklearn.pipeline import make_pipeline\n"
        "def model(): return make_pipeline(HashingVectorizer(n_features=256), LogisticRegression())\n"
    )
    monkeypatch.chdir(files)
    result = own(files, "--student", "my_student:model", "--shots", "5", "--seeds", "2", "--methods", "vanilla,eda")
    assert result.exit_code == 0, result.output
    assert "pipeline: Pipeline(steps=[('hashingvectorizer'" in (files / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--imbalance", "many"], "--imbalance is 'many'; give rows of the rare class and rows of every other class"),
        (["--imbalance", "9:3"], "--imbalance is '9:3'"),
        (["--imbalance", "natural,3:9"], "--imbalance natural keeps the class shares of the data"),
        (["--imbalance", "3:9", "--shots", "5"], "give --shots or --imbalance, not both"),
        (["--imbalance", "3:9", "--train-size", "5"], "leave --train-size out"),
        (["--imbalance", "3:9", "--rare", "maybe"], "my has no class 'maybe' (--rare); it has 'neg', 'pos'"),
        (["--imbalance", "3:90", "--rare", "neg"], "the class 'pos' has 10 rows to draw 90 from"),
        (["--rare", "neg"], "--rare names the rare class of --imbalance, which is missing"),
        (["--label-noise", "1.5"], "--label-noise is '1.5'; give a share of at least 0 and below 1"),
        (["--metric", "f1"], "unknown metric 'f1'; choose from accuracy, macro_f1"),
        (["--student", "bert"], "unknown student 'bert'; choose from finetune, probe, setfit, tfidf"),
        (["--teacher", "bert"], "unknown student 'bert'"),
        (["--student", "tfidf", "--methods", "mixup"], "the student tfidf has none"),
        (["--methods", "smote"], "needs the student's vectors before training; finetune has none"),
        (["--methods", "temperature", "--folds", "0"], "held-out folds of the training rows; give --folds 3"),
        (["--methods", "pseudo-label"], "pseudo-label needs unlabelled texts: give --unlabelled FILE"),
        (["--unlabelled", "nowhere.csv"], "nowhere.csv"),
        (["--folds", "1"], "folds is 1; give 0 for none, or at least 2"),
        (["--student", "tfidf", "--epochs", "3"], "--epochs has no effect: only finetune has it"),
        (
            ["--teacher", "tfidf"],
            "--teacher has no effect: no method uses predicted labels (such as eda+labels=predicted)",
        ),
        (["--unlabelled", "rest", "--shots", "5"], "--unlabelled has no effect: no method uses unlabelled texts"),
    ],
)
def test_bad_students_and_protocols_are_one_line(files: Path, arguments: list[str], message: str) -> None:
    result = own(files, *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (files / "out").exists()


def test_help_ends_with_examples() -> None:
    shown = CliRunner().invoke(main, ["bench", "--help"]).output
    assert "linda bench --train my.csv --test my_test.csv --shots 10" in shown
    assert "macro_f1_tuned" in shown
