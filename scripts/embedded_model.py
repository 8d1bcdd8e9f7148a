"""Makes the embedded model.

    python scripts/embedded_model.py --base OPUS_MT_FR_EN --lm SMOLLM2_135M --data DATA --work WORK

1. Cut the base: fewer pieces.
2. Train on the paper's objective (Eq. 6).
3. Count trigrams, and make middles: crossovers of real sentences, ranked by a language model.
4. Train on plain sentences, with a few minibatches of the paper's objective.
5. Train on plain sentences, the paper's objective and middles.
6. Store the weights in 8 bits.

BASE is the folder of OPUS-MT fr→en, LM that of SmolLM2-135M. DATA has the folder corpus, with wiki.txt.xz, other.txt.gz
and heldout.txt.xz. WORK keeps the results of each step. Stop the command at any time; run it again to continue:
finished steps are skipped.
"""

import argparse
import sys
from pathlib import Path

from linda.errors import LindaError
from linda.files.textio import atomic_writer, open_text
from linda.middles.making import SHARD_PAIRS, MiddlesPlan, Source, write_shards
from linda.middles.ngrams import TrigramModel
from linda.middles.rerank import SeamRanker
from linda.model import LindaModel
from linda.model.checkpoint import EMBEDDED
from linda.training import PRESETS, TrainingSettings, resumed_settings, train
from linda.training.base import cut_base
from linda.training.corpus import read_sentences
from linda.training.runstate import RunFolder

PIECES = 30_000
DECODER_LAYERS = range(6)  # all
OTHER_SHARE = 0.35  # of all sentences: reviews, news, everyday sentences, a few questions
QUESTION_SHARE = 0.08  # additional questions, which are only one in eighteen of the others
READING = {
    "mixing": "attention",
    "texts": 128,  # sentences in a minibatch of plain sentences
    "mask_probability": 0.08,
    "restyled": 0.3,
    "precision": "bf16",
}
# Mostly plain sentences: reading without a source decides which crossover is chosen.
SENTENCES_STAGE = READING | {
    "text_share": 0.94,  # of the minibatches
    "pair_share": 0.06,  # the paper's objective
    "learning_rate": 4e-4,
    "warmup": 100,
    "decay": 0.05,
}
MIDDLES_STAGE = READING | {
    "text_share": 0.7,
    "pair_share": 0.18,  # the others are middles
    "candidates": 6,
    "pairs": 16,
    "learning_rate": 3.5e-4,
    "warmup": 40,
    "decay": 0.9,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--lm", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20_000, help="updates of each stage (default 20,000)")
    parser.add_argument("--pairs", type=int, default=100_000, help="pairs to make middles of (default 100,000)")
    parser.add_argument("--output", type=Path, default=EMBEDDED)
    arguments = parser.parse_args()
    try:
        make(arguments)
    except LindaError as error:
        sys.exit(f"{parser.prog}: {error}")


def make(arguments: argparse.Namespace) -> None:
    corpus, work, steps = arguments.data / "corpus", arguments.work, arguments.steps
    wiki, other, held_out = (corpus / name for name in ("wiki.txt.xz", "other.txt.gz", "heldout.txt.xz"))
    work.mkdir(parents=True, exist_ok=True)
    base = work / "base"
    if not base.is_dir():
        cut_base(arguments.base, [wiki, other], base, pieces=PIECES, decoder_layers=DECODER_LAYERS)
    questions = work / "questions.txt"
    select_domain(other, "question", questions)

    sources = (str(wiki), f"{other}={OTHER_SHARE}", f"{questions}={QUESTION_SHARE}")
    settings = PRESETS["small"].changed(corpus=sources, base=str(base), validation=str(held_out), steps=steps)
    first = train_stage(settings, work / "first-stage")

    table = work / "trigrams.safetensors"
    if not table.is_file():
        sentences = (sentence for path in (wiki, other) for sentence in read_sentences(str(path)))
        TrigramModel.build(sentences, progress=True).save(table)
    plan = MiddlesPlan((Source(str(wiki), 0.5), Source(str(other), 0.5)), seed=1)
    shards = range(-(-arguments.pairs // SHARD_PAIRS))
    middles = work / "middles"
    write_shards(middles, plan, TrigramModel.load(table), SeamRanker.load(arguments.lm), shards, progress=True)

    second = train_stage(settings.changed(base=str(first), **SENTENCES_STAGE), work / "sentences-stage")
    settings = settings.changed(base=str(second), middles=(str(middles),), **MIDDLES_STAGE)
    third = train_stage(settings, work / "middles-stage")
    LindaModel.from_pretrained(third).save_pretrained(arguments.output, bits=8)


def train_stage(settings: TrainingSettings, output: Path) -> Path:
    """Train a model, or continue its training; return its folder."""
    if not output.is_dir():
        resume = RunFolder(output).last_step > 0
        train(
            resumed_settings(output, settings.steps) if resume else settings, output, resume=resume, calibration=False
        )
    return output


def select_domain(corpus: Path, domain: str, output: Path) -> None:
    """Write the sentences of one domain from a file of lines `domain<TAB>sentence`."""
    with open_text(str(corpus)) as lines:
        chosen = [line.partition("\t")[2] for line in lines if line.startswith(domain + "\t")]
    if not chosen:
        raise LindaError(f"{corpus} has no line of the domain {domain!r}")
    with atomic_writer(output) as file:
        file.writelines(chosen)


if __name__ == "__main__":
    main()
