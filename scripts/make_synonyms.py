#!/usr/bin/env python3
"""Builds the synonym table of EDA (src/linda/methods/synonyms.txt.xz) from WordNet's database files.

    scripts/make_synonyms.py /usr/share/wordnet        # where Debian's package wordnet-base puts them

The table contains only what EDA needs: which words share a sense, and irregular forms. It begins with WordNet's
licence, as the licence requires.

    # licence …
    noun<TAB>movie film picture motion_picture          one sense: its part of speech and its words
    verb.exc<TAB>went go                                an irregular form and the words it comes from
"""

import re
import sys
from pathlib import Path

from linda.files.textio import atomic_writer

PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
TARGET = Path(__file__).parent.parent / "src" / "linda" / "methods" / "synonyms.txt.xz"
LICENCE_LINE = re.compile(r"^  +\d+ ?(.*)$")
SYNTACTIC_MARKER = re.compile(r"\((?:a|p|ip)\)$")  # afraid(p): only after a verb


def licence(database: Path) -> list[str]:
    lines = (database / "data.noun").read_text(encoding="ascii").splitlines()
    return [match[1].rstrip() for line in lines if (match := LICENCE_LINE.match(line))]


def senses(database: Path, part_of_speech: str) -> list[tuple[str, ...]]:
    """Return the words of each sense that has at least two entries, one of them a single word."""
    found = []
    for line in (database / f"data.{part_of_speech}").read_text(encoding="ascii").splitlines():
        if LICENCE_LINE.match(line):
            continue
        fields = line.split(" ")
        count = int(fields[3], 16)
        words = tuple(SYNTACTIC_MARKER.sub("", fields[4 + 2 * number]) for number in range(count))
        if count > 1 and any("_" not in word for word in words):
            found.append(words)
    return found


def main() -> None:
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "data.noun").is_file():
        sys.exit("usage: make_synonyms.py FOLDER   (with WordNet's data.noun and the other database files)")
    database = Path(sys.argv[1])
    with atomic_writer(TARGET) as table:
        for line in licence(database):
            table.write(f"# {line}\n")
        for part_of_speech in PARTS_OF_SPEECH:
            for words in senses(database, part_of_speech):
                table.write(f"{part_of_speech}\t{' '.join(words)}\n")
            for line in (database / f"{part_of_speech}.exc").read_text(encoding="ascii").splitlines():
                table.write(f"{part_of_speech}.exc\t{line}\n")
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
