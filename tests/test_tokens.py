"""The ids and texts are those of the model's tokenizer in `transformers`, without it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from linda.errors import LindaError
from linda.model import LindaModel
from linda.model.checkpoint import EMBEDDED
from linda.model.tokens import Tokens

TEXTS = [
    "the cat sat on the old red river.",
    " two  spaces,\ttabs\nand lines \r\n",
    "naïve café — “quoted”… e\u0301 \u200b\u00a0",
    "漢字 🙂🚀 👩‍👩‍👧 ﷽ \U0010ffff",
    "x = {'a': [1, 2]}  # code ▁ <0x62>",
    "</s> <mask> <pad> <unk> <mask>and a<mask>b",
    "\x00\x7f",
    "a",
    "the cat " * 300,  # far beyond any window
]


@pytest.fixture(scope="module", params=["tiny", "embedded"])
def folder(request: pytest.FixtureRequest, tiny_model_folder: Path) -> Path:
    return tiny_model_folder if request.param == "tiny" else EMBEDDED


@pytest.fixture(scope="module")
def reference(folder: Path):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(folder)


@pytest.mark.parametrize("text", TEXTS)
def test_ids_and_texts_are_those_of_transformers(folder: Path, reference, text: str) -> None:
    tokens = Tokens.from_folder(folder)
    for masked in (False, True):
        ids = list(tokens.ids(text, masked))
        assert ids == reference(text, split_special_tokens=not masked, verbose=False)["input_ids"]
        assert tokens.texts([ids]) == reference.batch_decode(
            [ids], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    assert tokens.texts([tokens.ids(text)]) == [text]


def test_neither_the_file_nor_the_model_makes_it_cut_or_pad(tiny_model_folder: Path, tmp_path: Path) -> None:
    """A tokenizer that has been used for training is stored with its window and its padding."""
    stored = json.loads((tiny_model_folder / "tokenizer.json").read_text(encoding="utf-8"))
    stored["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    stored["padding"] = {
        "strategy": {"Fixed": 64},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 2,
        "pad_type_id": 0,
        "pad_token": "<pad>",
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored), encoding="utf-8")
    model = LindaModel.from_pretrained(tiny_model_folder)
    expected = Tokens.of(model).ids(TEXTS[0])
    model.tokenize([TEXTS[0], "<mask> " * 50], masked=True)  # changes the settings of the shared tokenizer
    assert Tokens.of(model).ids(TEXTS[0]) == Tokens.from_folder(tmp_path).ids(TEXTS[0]) == expected
    assert 3 < len(expected) < 64


def test_only_a_text_of_our_own_holds_the_mask(tiny_model: LindaModel) -> None:
    tokens, mask = Tokens.of(tiny_model), tiny_model.tokenizer.mask_token_id
    assert mask in tokens.ids("the <mask> sat", masked=True)
    assert mask not in tokens.ids("the <mask> sat")


def test_a_tokenizer_that_only_transformers_knows(tiny_model: LindaModel) -> None:
    """Like Marian's SentencePiece tokenizer: it has no tokenizer of `tokenizers` inside."""

    class Slow:
        def __init__(self) -> None:
            self.batch_decode = tiny_model.tokenizer.batch_decode

        def __call__(self, *arguments, **settings):
            return tiny_model.tokenizer(*arguments, **settings)

    slow, fast = Tokens(Slow()), Tokens.of(tiny_model)
    for text in TEXTS:
        assert slow.ids(text) == fast.ids(text)
        assert slow.ids(text, masked=True) == fast.ids(text, masked=True)
    rows = [fast.ids(text) for text in TEXTS]
    assert slow.texts(rows) == fast.texts(rows) == TEXTS


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff" * 100])
def test_a_missing_or_damaged_tokenizer_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(LindaError, match=f"{tmp_path}.*the tokenizer cannot be loaded") as caught:
        Tokens.from_folder(tmp_path)
    assert "\n" not in str(caught.value)


def test_transformers_is_not_needed(tiny_model_folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from linda.model.tokens import Tokens\n"
        f"tokens = Tokens.from_folder(Path({str(tiny_model_folder)!r}))\n"
        "print(tokens.texts([tokens.ids('the cat')]), sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['the cat'] []\n"
