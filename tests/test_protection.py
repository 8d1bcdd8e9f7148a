"""Protected words of the parents are in every new text, and EDA does not change them."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from linda.augmentation import Augmenter, augment
from linda.augmentation.gates import Gates
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.texts import PROTECTED, TextRequest, Writer
from linda.cli import main
from linda.errors import LindaError
from linda.methods import protection
from linda.methods.eda import Eda
from linda.methods.protection import Protected
from splice import Splice, sentences


def found(protect: Any, text: str) -> list[str]:
    return [text[start:end] for start, end in Protected.parse(protect).spans(text)]


def test_words_phrases_and_patterns_are_found() -> None:
    assert found("paris,New York City,New York", "Paris, not Parisian; NEW YORK city") == ["Paris", "NEW YORK city"]
    assert found(["C++", "regex:[0-9]+"], "C++ 17 and c++20") == ["C++", "17", "20"]
    assert found("regex:x*", "a xx") == ["xx"]  # an empty match protects nothing
    assert not Protected.parse(())
    assert found(",".join(f"word{number}" for number in range(1000)), "the word7 here") == ["word7"]


def test_a_set_of_words_is_stored_in_order() -> None:
    assert AugmentationSettings(method="eda", protect={"Paris", "New York"}).protect == ["New York", "Paris"]


@pytest.mark.parametrize("name", ["words.txt", "words"])
def test_a_file_has_one_word_per_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Paris\n\n New York \nNice, France\n")
    assert Protected.parse(str(tmp_path / name)).words == ("Paris", "New York", "Nice, France")


@pytest.mark.parametrize(
    ("protect", "message"),
    [
        ("regex:(", r"'\(' is not a valid regular expression \(missing \), unterminated subpattern at position 0\)"),
        ("nowhere.txt", "nowhere.txt"),
        ("", "no words in ''"),
        (["Paris", " , "], "no words in ' , '"),
    ],
)
def test_what_cannot_be_protected_is_told(protect: Any, message: str) -> None:
    with pytest.raises(LindaError, match=message):
        Augmenter(protect=protect)


def test_a_pattern_that_takes_years_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "_MATCH_SECONDS", 0.2)
    protected = Protected.parse("regex:(a|aa)+$")
    assert protected.spans("an aaa") == [(3, 6)]
    with pytest.raises(
        LindaError, match=r"'\(a\|aa\)\+\$' takes more than 0.2 seconds on the text 'aaa.*nested repetition"
    ):
        protected.spans("a" * 100 + "b")


def test_words_of_both_parents_must_be_kept() -> None:
    protected = Protected.parse("ape0,fox1,ape7")
    first, second = sentences(2)
    assert protected.are_kept("ape0 bee0 fox1", [first, second])
    assert not protected.are_kept("ape0 bee0 fox0", [first, second])
    assert protected.are_kept("APE0", [first])
    assert protected.are_kept("ape7", ["nothing in particular"])


def test_a_text_that_lacks_a_word_is_written_again() -> None:
    request = TextRequest((sentences(2)[0],), (sentences(2)[1],), 0.5, 3)
    (plain,) = Writer(Splice(), Gates(), 0)([request])
    assert plain.example == ("ape0 bee0 cat0 dog1 elk1 fox1",)
    (again,) = Writer(Splice(), Gates(), 50, Protected.parse("fox0,ape1"))([request])
    assert again.example is not None
    assert {"fox0", "ape1"} <= set(again.example[0].split())
    assert set(again.stopped_by) <= {PROTECTED, "copies"}
    assert again.stopped_by[0] == PROTECTED
    (none,) = Writer(Splice(), Gates(), 2, Protected.parse("ape0,ape1"))([request])
    assert none.example is None  # both are first words: no splice has both


def test_each_text_of_a_pair_keeps_the_words_of_its_own_parents() -> None:
    class Swap(Splice):
        def texts(self, a: Any, b: Any, alpha: Any, seeds: Any) -> list[str]:
            return [a[1], a[0]]

    request = TextRequest(("a red cat", "a dog"), ("the old man", "a city"), 0.5, 0)
    (draft,) = Writer(Swap(), Gates(drift=False, copies=False), 0, Protected.parse("red"))([request])
    assert draft.stopped_by == (PROTECTED,)


TEXT = "In Paris, the old man saw a New York film about the great war, and he liked it very much in 1999."


def test_eda_never_touches_protected_words() -> None:
    protected = Protected.parse(["New York,Paris,great war", "regex:[0-9]+"])
    texts = Eda(share=0.5, protected=protected).texts([TEXT] * 300, None, None, range(300))
    assert len(set(texts)) > 250
    for text in texts:
        assert re.findall(r"Paris|New York|great war|1999", text) == ["Paris", "New York", "great war", "1999"]
    unprotected = Eda(share=0.5).texts([TEXT] * 300, None, None, range(300))
    assert any("New York" not in text for text in unprotected)


@pytest.mark.parametrize("text", ["Paris old", "old Paris", "old Paris film", "Paris Paris", "a-Paris b"])
def test_eda_keeps_protected_words_at_every_place(text: str) -> None:
    texts = Eda(share=1.0, protected=Protected.parse("Paris")).texts([text] * 100, None, None, range(100))
    assert {new.count("Paris") for new in texts} == {text.count("Paris")}
    assert not any("  " in new or new != new.strip() for new in texts)


def test_eda_without_protected_words_is_unchanged() -> None:
    assert Eda(protected=Protected.parse("absent")).texts([TEXT], None, None, [5]) == Eda().texts(
        [TEXT], None, None, [5]
    )


@pytest.mark.parametrize("method", ["eda", Splice()])
def test_every_new_row_has_the_words_of_its_parents(method: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["Paris", "Rome", "Oslo", "Bern"]
    data = {
        "text": [f"the film from {word} was a great success for the old man" for word in words],
        "label": [0, 1] * 2,
    }
    rows = augment(data, protect=words, method=method, per_row=20, ratio="0.2-0.8", only_new=True, progress=True)
    for row in rows:
        parents = {words[row["parent_a"]]} | ({words[row["parent_b"]]} if row["parent_b"] is not None else set())
        assert parents <= set(row["text"].split())
    summary = capsys.readouterr().err
    assert re.search(r"  protected +[\d,]+ rejected", summary)
    assert (len(rows) > 50) == (method == "eda")  # no splice has both words, which are at the same place


def test_the_command_protects_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text(
        "text,label\n" + "".join(f"the old film {n} in Paris was good,{n % 2}\n" for n in range(6))
    )

    def call(*arguments: str) -> Any:
        command = ["augment", "in.csv", "--output", "out.csv", "--method", "eda", *arguments]
        return CliRunner().invoke(main, command, catch_exceptions=False)

    result = call("--per-row", "9", "--protect", "Paris", "--protect", "regex:[0-9]+")
    assert result.exit_code == 0
    lines = Path("out.csv").read_text().splitlines()[1:]
    assert len(lines) > 40
    assert all(re.search(r"Paris", line) and re.search(r"\d", line.split(",")[0]) for line in lines)
    bad = call("--protect", "regex:[")
    assert (bad.exit_code, len(bad.stderr.splitlines())) == (2, 1)
    assert "'[' is not a valid regular expression" in bad.stderr
