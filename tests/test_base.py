"""A tiny Marian model with a tiny SentencePiece model is cut: what must stay the same, and what must change."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianConfig, MarianMTModel

from linda.cli import main
from linda.errors import LindaError
from linda.training.base import BYTES, LOOKALIKES, SPECIALS, build_tokenizer, cut_base, most_used
from tiny_models import MARIAN_SENTENCES, save_tiny_marian

NASTY = [
    "",
    " ",
    "  two  spaces  on every side  ",
    "tab\there\nnew\r\nline",
    "😀 👩‍👩‍👧 日本語 русский",
    "a literal ▁ and ▁▁two",
    "don’t “quote” me… no\u00a0break",
    "cafe\u0301 é ﬁ ½ ™ Ⅳ",
    "<mask> </s> <pad><unk> <0x41> <0xE2> x<mask>y",
    "could n't -lrb- a | b |c",
    "\u200b\ufeff\x00\x7f\u2028\ufdd0\U0010ffff",
]


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_marian(tmp_path_factory.mktemp("marian"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "sentences.txt"
    path.write_text("".join(f"domain\t{sentence}\n" for sentence in MARIAN_SENTENCES))
    return path


@pytest.fixture(scope="module")
def base(marian: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cut") / "base"
    cut_base(marian, [corpus], folder, pieces=335, decoder_layers=[0, 1, 2])
    return folder


def original(marian: Path) -> MarianMTModel:
    model = MarianMTModel(MarianConfig.from_pretrained(marian))
    model.load_state_dict(torch.load(marian / "pytorch_model.bin", weights_only=True))
    return model.eval()


def test_the_cut_model_gives_each_kept_piece_the_logit_it_had(marian: Path, base: Path) -> None:
    tokenizer, cut = AutoTokenizer.from_pretrained(base), AutoModelForSeq2SeqLM.from_pretrained(base).eval()
    whole = original(marian)
    row_of = json.loads((marian / "vocab.json").read_text())
    first_piece = len(SPECIALS) + len(BYTES)
    names = tokenizer.convert_ids_to_tokens(range(first_piece, len(tokenizer)))
    kept = [name for name in names if name in row_of or name.replace(" ", "▁") in row_of]
    new_ids = torch.tensor(tokenizer.convert_tokens_to_ids(kept))
    old_ids = torch.tensor([row_of[name.replace(" ", "▁")] for name in kept])
    assert len(kept) > 60

    text = tokenizer(["The old miller forgot the river."], return_tensors="pt").input_ids  # (1, L)
    tokens = tokenizer.convert_ids_to_tokens(text[0])
    old_text = torch.tensor([[row_of[token.replace(" ", "▁")] for token in tokens]])
    start, old_start = torch.tensor([[cut.config.pad_token_id]]), torch.tensor([[whole.config.pad_token_id]])
    with torch.inference_mode():
        logits = cut(input_ids=text, decoder_input_ids=torch.cat([start, text], 1)).logits
        old_logits = whole(input_ids=old_text, decoder_input_ids=torch.cat([old_start, old_text], 1)).logits
    torch.testing.assert_close(logits[..., new_ids], old_logits[..., old_ids])
    assert (logits[..., 0] == old_logits[..., 0]).all()  # </s>


def test_decoder_layers_are_kept_in_the_order_given(marian: Path, corpus: Path, tmp_path: Path) -> None:
    cut_base(marian, [corpus], tmp_path / "base", pieces=340, decoder_layers=[2, 0])
    cut, whole = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "base"), original(marian)
    assert cut.config.decoder_layers == 2
    assert cut.config.encoder_layers == 2
    for new, old in enumerate([2, 0]):
        kept, was = cut.model.decoder.layers[new], whole.model.decoder.layers[old]
        assert torch.equal(kept.encoder_attn.k_proj.weight, was.encoder_attn.k_proj.weight)
        assert torch.equal(kept.fc1.bias, was.fc1.bias)


def test_special_tokens_are_read_but_never_written(base: Path) -> None:
    tokenizer, cut = AutoTokenizer.from_pretrained(base), AutoModelForSeq2SeqLM.from_pretrained(base).eval()
    ids = tokenizer(["The <mask> river."], return_tensors="pt").input_ids
    with torch.inference_mode():
        logits = cut(input_ids=ids, decoder_input_ids=ids).logits  # (1, L, V)
    never = [tokenizer.unk_token_id, tokenizer.pad_token_id, tokenizer.mask_token_id]
    probabilities = logits.softmax(-1)
    assert probabilities[..., never].max() < 1e-20
    assert probabilities.max(-1).values.min() < 1  # the others have some probability


@pytest.mark.parametrize("text", NASTY)
def test_every_text_survives_the_round_trip(base: Path, text: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(base)
    ids = tokenizer(text, split_special_tokens=True).input_ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert ids[-1] == tokenizer.eos_token_id
    assert not set(ids[:-1]) & set(tokenizer.all_special_ids)


def test_a_mask_stands_for_one_word(base: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(base)

    def tokens(text: str) -> list[str]:
        return tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False).input_ids)

    words = {word: tokens(word) for word in ("The", "river", "last", "door.")}
    assert tokens("The <mask> river") == [*words["The"], "<mask>", *words["river"]]
    assert tokens("<mask> <mask> last door. <mask>") == ["<mask>"] * 2 + words["last"] + words["door."] + ["<mask>"]


def test_the_folder_loads_as_a_fast_tokenizer_of_one_file(base: Path) -> None:
    assert {path.name for path in base.iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    tokenizer = AutoTokenizer.from_pretrained(base)
    assert tokenizer.is_fast
    assert "Marian" not in type(tokenizer).__name__
    assert len(tokenizer) == 335
    assert tokenizer.model_max_length == 64
    assert tokenizer.convert_tokens_to_ids(list(SPECIALS)) == [0, 1, 2, 3]


def test_a_lookalike_starts_from_its_plain_form(base: Path) -> None:
    tokenizer, cut = AutoTokenizer.from_pretrained(base), AutoModelForSeq2SeqLM.from_pretrained(base)
    table = cut.get_input_embeddings().weight
    curly, plain = tokenizer.convert_tokens_to_ids(["’", LOOKALIKES["’"]])
    assert curly != plain
    assert torch.equal(table[curly], table[plain])


def test_the_pieces_most_used_are_kept_first() -> None:
    available = {" the": -1.0, " cat": -2.0, " dog": -3.0, "é": -4.0, "ö": -4.0, "x": -9.0, " ": -9.0}
    kept = most_used(available, ["the dog dog", "the dog é", "dog"], count=5)
    assert list(kept) == [" ", "x", " dog", " the", "é"]  # ASCII is kept though "x" is never used


def test_lower_case_counts_too() -> None:
    available = {" Paris": -1.0, " paris": -9.0, " Rome": -2.0}
    assert list(most_used(available, ["Paris"] * 8, count=2)) == [" Paris", " paris"]


def test_a_byte_typed_as_text_is_no_byte_even_where_its_characters_have_no_piece() -> None:
    tokenizer = build_tokenizer({" a": -1.0, "b": -2.0})
    tokenizer.encode_special_tokens = True
    assert tokenizer.decode(tokenizer.encode("ab <0x62> </s> <mask>").ids) == "ab <0x62> </s> <mask>"


def test_the_seed_alone_sets_the_new_embeddings(marian: Path, corpus: Path, tmp_path: Path) -> None:
    for name, seed in [("first", 3), ("again", 3), ("other", 4)]:
        cut_base(marian, [corpus], tmp_path / name, pieces=340, decoder_layers=[1], seed=seed)
    first, again, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "again", "other"))
    assert first == again
    assert first != other


@pytest.mark.parametrize("missing", ["config.json", "vocab.json", "target.spm", "pytorch_model.bin"])
def test_a_missing_file_is_named(marian: Path, corpus: Path, tmp_path: Path, missing: str) -> None:
    for path in marian.iterdir():
        if path.name != missing:
            (tmp_path / path.name).symlink_to(path)
    with pytest.raises(LindaError, match=f"has no {missing}"):
        cut_base(tmp_path, [corpus], tmp_path / "base", pieces=340, decoder_layers=[0])


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ("config.json", "not valid JSON"),
        ("vocab.json", "not valid JSON"),
        ("target.spm", "not a SentencePiece model"),
        ("pytorch_model.bin", "damaged"),
    ],
)
def test_a_damaged_file_is_named(marian: Path, corpus: Path, tmp_path: Path, damaged: str, message: str) -> None:
    for path in marian.iterdir():
        if path.name != damaged:
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / damaged).write_bytes(b"{ not what it should be")
    with pytest.raises(LindaError, match=f"{damaged} .*{message}"):
        cut_base(tmp_path, [corpus], tmp_path / "base", pieces=340, decoder_layers=[0])


@pytest.mark.parametrize("pieces", [100, 260, 5000])
def test_pieces_must_be_available(marian: Path, corpus: Path, tmp_path: Path, pieces: int) -> None:
    with pytest.raises(LindaError, match=f"--pieces is {pieces}; for .*, give 261 to 3"):
        cut_base(marian, [corpus], tmp_path / "base", pieces=pieces, decoder_layers=[0])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("layers", ["0,3", "-1", "1,1", "", "a"])
def test_wrong_layers_are_one_line_on_the_command_line(marian: Path, corpus: Path, tmp_path: Path, layers: str) -> None:
    arguments = ["cut-base", str(marian), "--corpus", str(corpus), "--output", str(tmp_path / "base")]
    result = CliRunner().invoke(main, [*arguments, f"--decoder-layers={layers}"])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"linda: --decoder-layers is {layers}; give ")
    assert result.stderr.count("\n") == 1


def test_an_existing_folder_is_left_alone(marian: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(LindaError, match="already exists"):
        cut_base(marian, [corpus], tmp_path, pieces=340, decoder_layers=[0])


def test_the_command_says_what_it_has_written(marian: Path, corpus: Path, tmp_path: Path) -> None:
    arguments = ["cut-base", str(marian), "--corpus", str(corpus), "--output", str(tmp_path / "base")]
    result = CliRunner().invoke(main, [*arguments, "--pieces", "330", "--decoder-layers", "0,2"])
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path / 'base'}: 330 pieces, 2 decoder layers\n"
    assert len(AutoTokenizer.from_pretrained(tmp_path / "base")) == 330
