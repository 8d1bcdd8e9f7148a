"""Build the embedded model: base, training, 8-bit weights, calibration.

    python scripts/embedded_model.py --base OPUS_MT_FR_EN --data DATA --work WORK [--steps N]

BASE is the folder of OPUS-MT fr→en; DATA contains corpus/{wiki.txt.xz,other.txt.gz,heldout.txt.xz}; WORK stores the cut
base, the run and its checkpoints. The command can be interrupted at any time and run again: finished steps are skipped,
and training resumes from its checkpoint.
"""

import argparse
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

from linda.errors import LindaError
from linda.files.textio import atomic_writer, open_text
from linda.interpolation import Interpolator
from linda.interpolation.calibration import calibrate
from linda.measures.pairs import draw_pairs
from linda.model import LindaModel
from linda.model.checkpoint import EMBEDDED
from linda.training import PRESETS, resumed_settings, train
from linda.training.base import cut_base
from linda.training.corpus import read_sentences
from linda.training.runstate import RunFolder

PIECES = 30_000
DECODER_LAYERS = [0, 2, 5]
OTHER_SHARE = 0.2  # of all sentences: reviews, news, everyday sentences, a few questions
QUESTION_SHARE = 0.07  # additional questions: only one in eighteen of the others is a question
CALIBRATION_PAIRS = 150  # pairs of each kind of text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, help="updates, in place of the preset's")
    parser.add_argument("--output", type=Path, default=EMBEDDED)
    arguments = parser.parse_args()
    try:
        make(arguments.base, arguments.data / "corpus", arguments.work, arguments.steps, arguments.output)
    except LindaError as error:
        sys.exit(f"{parser.prog}: {error}")


def make(marian: Path, corpus: Path, work: Path, steps: int | None, output: Path) -> None:
    wiki, other, held_out = (corpus / name for name in ("wiki.txt.xz", "other.txt.gz", "heldout.txt.xz"))
    work.mkdir(parents=True, exist_ok=True)
    base = work / "base"
    if not base.is_dir():
        cut_base(marian, [wiki, other], base, pieces=PIECES, decoder_layers=DECODER_LAYERS)

    trained = work / "model"
    if not trained.is_dir():
        resume = RunFolder(trained).last_step > 0
        questions = work / "questions.txt"
        select_domain(other, "question", questions)
        sources = (str(wiki), f"{other}={OTHER_SHARE}", f"{questions}={QUESTION_SHARE}")
        settings = replace(PRESETS["small"], corpus=sources, base=str(base), validation=str(held_out))
        settings = replace(settings, steps=steps or settings.steps)
        train(resumed_settings(trained, steps) if resume else settings, trained, resume=resume)

    ship(trained, [held_out, other], output)


def select_domain(corpus: Path, domain: str, output: Path) -> None:
    """Return the sentences of one domain in a file of lines `domain<TAB>sentence`."""
    with open_text(str(corpus)) as lines:
        chosen = [line.partition("\t")[2] for line in lines if line.startswith(domain + "\t")]
    if not chosen:
        raise LindaError(f"{corpus} has no line of the domain {domain!r}")
    with atomic_writer(output) as file:
        file.writelines(chosen)


def ship(trained: Path, held_out: list[Path], output: Path) -> None:
    """Store the weights in 8 bits and calibrate the stored model, because rounding shifts the ratios slightly."""
    LindaModel.from_pretrained(trained).save_pretrained(output, bits=8)
    pairs = [
        pair
        for path in held_out
        for pair in draw_pairs(islice(read_sentences(str(path)), 2 * CALIBRATION_PAIRS), CALIBRATION_PAIRS)
    ]
    calibrate(Interpolator.from_pretrained(output), output, pairs, progress=True)


if __name__ == "__main__":
    main()
