"""Cut a Marian translation model down to a small English encoder-decoder: the base that `linda train` starts from.

Given English, a model that translates *into* English nearly copies it, which is a good start for LINDA. So the encoder
is kept unchanged, while the tokens of the other language and some decoder layers (which dominate the decoding time) are
removed. The new tokenizer is a single `tokenizer.json`, which can encode any text.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from linda.errors import MAX_SEED, LindaError, checked_integer, reason, shortened
from linda.files.folders import atomic_folder, check_replaceable
from linda.files.jsonfile import read_json_object
from linda.files.paths import checked_path
from linda.model.architecture import check_architecture, check_fits_files
from linda.training.corpus import read_sentences

EOS, UNK, PAD, MASK = "</s>", "<unk>", "<pad>", "<mask>"
SPECIALS = (EOS, UNK, PAD, MASK)
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

# Marian was trained on normalized text, in which these common characters do not occur. Each becomes a token that is
# initialized with the embedding of its plain form.
LOOKALIKES = {"’": "'", "“": '"', "”": '"', "…": "...", "\u00a0": " "}

_NEVER_GENERATED = -100.0  # bias of a logit

_SHARED = "model.shared.weight"
_LOGITS_BIAS = "final_logits_bias"
_TIED = (_SHARED, _LOGITS_BIAS, "lm_head.weight")

_KIND = "base that may be replaced"

Pieces = dict[str, float]  # token, with its word boundary as a space → log-probability


def cut_base(
    marian: Path,
    corpus: Sequence[Path],
    output: Path,
    *,
    pieces: int = 30_000,
    decoder_layers: Sequence[int] = (0, 2, 5),
    lines: int = 200_000,
    seed: int = 0,
) -> None:
    """Write the small model, with the `pieces` most frequent tokens of the corpus, as a folder of `transformers`.

    Args:
        marian: Folder of the Marian model.
        corpus: Files of sentences.
        output: Folder to write.
        pieces: Size of the vocabulary, special tokens and bytes included.
        decoder_layers: Decoder layers to keep.
        lines: Number of sentences of each corpus file in which tokens are counted.
        seed: Seed of the embeddings that the Marian model does not have.

    Example:
        >>> cut_base(Path("opus-mt-fr-en"), [Path("sentences.txt.xz")], Path("base"), pieces=16_000)
    """
    for name in ("config.json", "vocab.json", "target.spm", "pytorch_model.bin"):
        if not (checked_path(marian) / name).is_file():
            raise LindaError(f"{marian} has no {name}; give the folder of a Marian model that translates into English")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise LindaError(f"{output} already exists; remove it, or give another --output")
    check_replaceable(output, _KIND, lambda folder: False)
    checked_integer(lines, "lines", 1, 10**9)
    checked_integer(seed, "seed", 0, MAX_SEED)
    settings = read_json_object(marian / "config.json")
    check_architecture(settings, str(marian / "config.json"))
    _check_layers(decoder_layers, settings, marian)
    rows = _read_vocabulary(marian / "vocab.json", settings["vocab_size"])
    available = _available_pieces(marian / "target.spm", rows)
    count = pieces - len(SPECIALS) - len(BYTES)
    if not 0 < count <= len(available):
        fixed = len(SPECIALS) + len(BYTES)
        raise LindaError(f"--pieces is {pieces}; for {marian}, give {fixed + 1} to {fixed + len(available)}")

    for path in corpus:
        if next(read_sentences(str(path)), None) is None:
            raise LindaError(f"{path} contains no sentence; give a file with one sentence per line")
    sentences = (itertools.islice(read_sentences(str(path)), lines) for path in corpus)
    kept = most_used(available, itertools.chain.from_iterable(sentences), count)
    weights = _read_weights(marian / "pytorch_model.bin")
    check_fits_files(settings, marian)
    try:
        state = _cut_weights(weights, [rows[piece] for piece in (EOS, UNK, PAD, *kept)], decoder_layers, seed)
    except (IndexError, KeyError, RuntimeError, AttributeError) as error:
        raise LindaError(
            f"{marian}: weights and vocabulary do not match ({reason(error)}); download it again"
        ) from error
    _save(build_tokenizer(kept), _cut_settings(settings, pieces, len(decoder_layers)), state, marian, output)


def build_tokenizer(pieces: Mapping[str, float]) -> Tokenizer:
    """Create a lossless Unigram tokenizer over `pieces`.

    Nothing is normalized, except that a space is prepended, which decoding removes. A word boundary is a plain space
    inside the token (" the"), so that no character is reserved for it. A character without a token is encoded as its
    UTF-8 bytes. Ids: special tokens, 256 bytes, then the pieces in order.
    """
    rarest = min(pieces.values())
    vocabulary = [(token, rarest) for token in (*SPECIALS, *BYTES)] + list(pieces.items())
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=SPECIALS.index(UNK), byte_fallback=True))
    tokenizer.normalizer = normalizers.Prepend(" ")
    # A "<" ends its word, so that "<0x41>" or "</s>" in a text is never read as the byte or the special token.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Split("<", "merged_with_previous")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", pair=f"$A {EOS} $B {EOS}", special_tokens=[(EOS, SPECIALS.index(EOS))]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1, right=0)]
    )
    for token in SPECIALS:
        # The mask replaces a whole word: it includes the spaces around it, and the next word keeps its own space.
        is_word = token == MASK
        tokenizer.add_special_tokens([AddedToken(token, lstrip=is_word, rstrip=is_word, normalized=False)])
    return tokenizer


def most_used(available: Mapping[str, float], sentences: Iterable[str], count: int) -> Pieces:
    """Return the `count` most frequent tokens of the sentences; ASCII characters and look-alikes are always included.

    A single character is counted wherever it occurs, because longer tokens may be removed. One sentence in four is
    counted in lower case, because many classification data sets are in lower case.
    """
    tokenizer = build_tokenizer(available)
    tokenizer.encode_special_tokens = True  # a corpus contains no special tokens
    names = {number: piece for piece, number in tokenizer.get_vocab().items()}
    cased = (text.lower() if number % 4 == 0 else text for number, text in enumerate(sentences))
    counts: Counter[str] = Counter()
    while batch := list(itertools.islice(cased, 10_000)):
        for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            counts.update(names[number] for number in encoding.ids if len(names[number]) > 1)
        counts.update(itertools.chain.from_iterable(batch))

    def rank(piece: str) -> tuple[bool, int, float, str]:
        is_needed = (len(piece) == 1 and piece.isascii()) or piece.lstrip(" ") in LOOKALIKES
        return not is_needed, -counts[piece], -available[piece], piece

    return {piece: available[piece] for piece in sorted(available, key=rank)[:count]}


def _available_pieces(path: Path, rows: dict[str, int]) -> Pieces:
    """Return the SentencePiece tokens that have an embedding, and the look-alikes, which are added to `rows`."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise LindaError("cutting a base needs sentencepiece: pip install 'linda[base]'") from error
    try:
        model = SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError, ValueError) as error:
        raise LindaError(f"{path} is not a SentencePiece model; download it again") from error
    normal = [i for i in range(len(model)) if not (model.is_control(i) or model.is_unknown(i))]
    scores = {model.id_to_piece(i).replace("▁", " "): model.get_score(i) for i in normal}
    available = {piece: score for piece, score in scores.items() if piece in rows}
    for (character, plain), space in itertools.product(LOOKALIKES.items(), ("", " ")):
        if space + character not in available and space + plain in available:
            available[space + character] = available[space + plain]
            rows[space + character] = rows[space + plain]
    return available


def _cut_weights(
    weights: Mapping[str, Tensor], rows: Sequence[int], decoder_layers: Sequence[int], seed: int
) -> dict[str, Tensor]:
    """Return the weights of the small model. `rows`: embeddings of </s>, <unk>, <pad> and the kept tokens."""
    table, bias = weights[_SHARED][rows].float(), weights[_LOGITS_BIAS][:, rows].float()  # (V, d), (1, V)
    # The mask and the bytes are new tokens: initialized near the mean embedding, with the lowest bias.
    count, width = 1 + len(BYTES), table.shape[1]
    noise = torch.randn(count, width, generator=torch.Generator().manual_seed(seed))
    unseen = table.mean(dim=0) + 0.1 * table.std(dim=0) * noise
    table = torch.cat([table[:3], unseen, table[3:]])
    bias = torch.cat([bias[:, :3], bias.min().expand(1, count), bias[:, 3:]], dim=1)
    # <unk>, <pad> and the mask are never generated, without any suppression in the decoder.
    bias[:, [SPECIALS.index(token) for token in (UNK, PAD, MASK)]] = _NEVER_GENERATED

    state = {_SHARED: table, _LOGITS_BIAS: bias}
    new_numbers = {f"model.decoder.layers.{old}.": new for new, old in enumerate(decoder_layers)}
    for name, value in weights.items():
        if name in _TIED or "embed_tokens" in name or "embed_positions" in name:
            continue
        if name.startswith("model.decoder.layers."):
            layer = ".".join(name.split(".")[:4]) + "."
            if layer not in new_numbers:
                continue
            name = f"model.decoder.layers.{new_numbers[layer]}.{name.removeprefix(layer)}"
        state[name] = value.float()
    return state


def _cut_settings(settings: Mapping[str, Any], pieces: int, decoder_layers: int) -> dict[str, Any]:
    """Return Marian's configuration for the small model, without generation settings."""
    old = {"_name_or_path", "bad_words_ids", "max_length", "num_beams", "num_hidden_layers"}
    return {name: value for name, value in settings.items() if name not in old} | {
        "vocab_size": pieces,
        "decoder_vocab_size": pieces,
        "decoder_layers": decoder_layers,
        "bos_token_id": None,
        "eos_token_id": SPECIALS.index(EOS),
        "forced_eos_token_id": None,
        "pad_token_id": SPECIALS.index(PAD),
        "decoder_start_token_id": SPECIALS.index(PAD),
    }


def _save(tokenizer: Tokenizer, settings: dict[str, Any], state: dict[str, Tensor], marian: Path, output: Path) -> None:
    from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

    try:
        config = MarianConfig.from_dict(settings)
        model = MarianMTModel(config)
    except Exception as error:  # wrong values raise various exceptions
        raise LindaError(f"{marian / 'config.json'} does not describe a Marian model ({reason(error)})") from error
    try:
        missing, unexpected = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise LindaError(f"{marian}: weights do not match config.json: {str(error).splitlines()[-1]}") from error
    computed = ("embed_positions.weight", "embed_tokens.weight", "lm_head.weight")
    if lost := [*unexpected, *(name for name in missing if not name.endswith(computed))]:
        raise LindaError(f"{marian}: weights do not match config.json: {lost[0]}")

    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=EOS,
        unk_token=UNK,
        pad_token=PAD,
        mask_token=tokenizer.get_added_tokens_decoder()[SPECIALS.index(MASK)],
        model_max_length=config.max_position_embeddings,
        clean_up_tokenization_spaces=False,
    )
    with atomic_folder(output, _KIND, lambda folder: False) as part:
        fast.save_pretrained(part)
        model.save_pretrained(part)


def _check_layers(layers: Sequence[int], settings: Mapping[str, Any], marian: Path) -> None:
    available = settings.get("decoder_layers")
    if settings.get("model_type") != "marian" or not isinstance(available, int):
        raise LindaError(f"{marian / 'config.json'} is not the configuration of a Marian model")
    if not layers or len(set(layers)) < len(layers) or not set(layers) <= set(range(available)):
        given = ",".join(map(str, layers))
        raise LindaError(f"--decoder-layers is {given}; give different numbers from 0 to {available - 1}")


def _read_vocabulary(path: Path, size: int) -> dict[str, int]:
    """Return the row of each token in the embedding table, with its word boundary as a space."""
    rows = read_json_object(path)
    for piece, row in rows.items():
        if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row < size:
            raise LindaError(
                f"{path}: the piece {shortened(piece)} has the id {shortened(row)}, expected 0 to {size - 1}"
            )
    for piece in (EOS, UNK, PAD):
        if piece not in rows:
            raise LindaError(f"{path} has no piece {piece!r}; give the folder of a Marian model")
    return {piece.replace("▁", " "): row for piece, row in rows.items()}


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise any exception
        raise LindaError(
            f"{path} is damaged, or contains more than weights ({reason(error)}); download it again"
        ) from error
    if not isinstance(weights, dict) or not all(isinstance(value, Tensor) for value in weights.values()):
        raise LindaError(f"{path} contains more than weights; download it again")
    if _SHARED not in weights or _LOGITS_BIAS not in weights:
        raise LindaError(f"{path} has no {_SHARED}: only models with one joint vocabulary can be cut")
    return weights
