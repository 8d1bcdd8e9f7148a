"""Models with some thousand random weights, in folders."""

import io
import itertools
import json
from pathlib import Path
from typing import Any

import torch

WORDS = "the a cat dog man woman city river sat ran saw is was on in of and old red small what where who"
ATTENTION_WINDOW = 72
CHARACTERS = " abcdefghijklmnopqrstuvwxyz0123456789.?<>/"

SUBJECTS = ["The old miller", "A quiet teacher", "My neighbour's dog", "The night train", "Our small choir"]
VERBS = ["crossed", "remembered", "followed", "painted", "forgot", "waited for", "laughed at"]
OBJECTS = ["the river.", "a red door.", "two letters, then a third.", "the last winter!", "nothing at all?"]
MARIAN_SENTENCES = [" ".join(words) for words in itertools.product(SUBJECTS, VERBS, OBJECTS)]


_SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 128,
    "dropout": 0.0,
    "init_std": 0.5,
}


def save_tiny_base(folder: Path) -> Path:
    """A Marian encoder-decoder with random weights and a tokenizer that loses no character."""
    from transformers import MarianConfig, MarianMTModel

    tokenizer = _tiny_tokenizer()
    config = MarianConfig(
        **_SIZES,
        **_special_ids(tokenizer),
        forced_eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return _save_tiny(folder, tokenizer, MarianMTModel, config)


def save_tiny_bart(folder: Path) -> Path:
    """A BART: texts begin with <s>, which the decoder is forced to write after its start, the end marker."""
    from tokenizers import processors
    from transformers import BartConfig, BartForConditionalGeneration

    tokenizer = _tiny_tokenizer()
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    start, end = ("<s>", tokenizer.bos_token_id), (tokenizer.eos_token, tokenizer.eos_token_id)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"<s> $A {tokenizer.eos_token}", special_tokens=[start, end]
    )
    config = BartConfig(
        **_SIZES,
        **_special_ids(tokenizer),
        bos_token_id=tokenizer.bos_token_id,
        forced_bos_token_id=tokenizer.bos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id,
    )
    return _save_tiny(folder, tokenizer, BartForConditionalGeneration, config)


def save_tiny_t5(folder: Path) -> Path:
    """A T5: its decoder starts with padding, and has no position embeddings."""
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = _tiny_tokenizer()
    config = T5Config(
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_decoder_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        initializer_factor=1.0,
        decoder_start_token_id=tokenizer.pad_token_id,
        **_special_ids(tokenizer),
    )
    return _save_tiny(folder, tokenizer, T5ForConditionalGeneration, config)


def _tiny_tokenizer() -> Any:
    from transformers import PreTrainedTokenizerFast

    from linda.training.base import EOS, MASK, PAD, UNK, build_tokenizer

    pieces = {f" {word}": -3.0 for word in WORDS.split()} | dict.fromkeys(CHARACTERS, -6.0)
    return PreTrainedTokenizerFast(
        tokenizer_object=build_tokenizer(pieces),
        eos_token=EOS,
        unk_token=UNK,
        pad_token=PAD,
        mask_token=MASK,
        clean_up_tokenization_spaces=False,
    )


def _special_ids(tokenizer: Any) -> dict[str, int]:
    return {
        "vocab_size": len(tokenizer),
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def _save_tiny(folder: Path, tokenizer: Any, kind: Any, config: Any) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        kind(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_tiny_attention(base: Path, folder: Path) -> Path:
    """A model that mixes by attention, with random weights. Padding has no probability, as in the engines."""
    from linda.model import LindaModel

    model = LindaModel.from_seq2seq(base, max_length=ATTENTION_WINDOW)
    model.mix_by_attention()
    assert model.attention_mixing is not None
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.attention_mixing.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    model.seq2seq.final_logits_bias[0, model.tokenizer.pad_token_id] = -1e4
    model.save_pretrained(folder)
    return folder


def save_tiny_marian(folder: Path) -> Path:
    """A small OPUS-MT: a joint vocabulary in which the English tokens are spread among others."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
    from transformers import MarianConfig, MarianMTModel

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(MARIAN_SENTENCES),
        model_writer=model,
        vocab_size=110,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
    )
    (folder / "target.spm").write_bytes(model.getvalue())
    pieces = SentencePieceProcessor(model_proto=model.getvalue())
    english = [pieces.id_to_piece(i) for i in range(3, len(pieces))]
    foreign = [f"▁étranger{i}" for i in range(len(english))]
    tokens = ["</s>", "<unk>", *itertools.chain(*zip(foreign, reversed(english), strict=True)), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: row for row, token in enumerate(tokens)}))

    pad = len(tokens) - 1
    config = MarianConfig(
        vocab_size=len(tokens),
        d_model=16,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=64,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        init_std=0.5,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        small = MarianMTModel(config)
        small.final_logits_bias.normal_()
    config.save_pretrained(folder)
    torch.save(small.state_dict(), folder / "pytorch_model.bin")
    return folder


def tiny_language_model(vocabulary: list[str], pre_tokenizer: Any, **sizes: int) -> tuple[Any, Any]:
    """A Llama with random weights and a tokenizer that knows these words; the first two are <unk> and <s>."""
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizer
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(vocabulary), initializer_range=0.5, **{**small, **sizes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    return model, PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>")


def language_model_of_sentences(sentences: list[str], **sizes: int) -> tuple[Any, Any]:
    """Over the words of sentences; a space belongs to the word after it."""
    from tokenizers import pre_tokenizers

    spaced = {f"{space}{word}" for sentence in sentences for word in sentence.split() for space in ("", " ")}
    return tiny_language_model(
        ["<unk>", "<s>", *sorted(spaced)], pre_tokenizers.Split(" ", "merged_with_next"), **sizes
    )
