"""Synonyms of English words, from WordNet: all words that share a sense with the given word.

The table (`synonyms.txt.xz`, built by `scripts/make_synonyms.py`) contains base forms. Words are first reduced to their
base forms as in WordNet: irregular forms by a list, regular forms by their endings.
"""

from collections import defaultdict
from functools import cache, lru_cache
from pathlib import Path

from linda.files.textio import open_text

_TABLE = Path(__file__).parent / "synonyms.txt.xz"

# part of speech: (ending of the form, ending of the base), as in WordNet's morphology.
_ENDINGS = {
    "noun": [
        ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"),
        ("ies", "y"),
    ],
    "verb": [
        ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ],
    "adj": [("er", ""), ("est", ""), ("er", "e"), ("est", "e")],
    "adv": [],
}  # fmt: skip


@lru_cache(maxsize=2**16)
def synonyms(word: str) -> tuple[str, ...]:
    """Return the synonyms of a word, sorted for reproducible choices. A synonym may consist of several words."""
    senses, base_forms = _read_table()
    lower = word.lower()
    found = set()
    for part_of_speech, endings in _ENDINGS.items():
        forms = [lower, *base_forms[part_of_speech].get(lower, ())]
        forms += [lower.removesuffix(end) + base for end, base in endings if lower.endswith(end)]
        for form in forms:
            for sense in senses[part_of_speech].get(form, ()):
                found.update(sense)
    return tuple(sorted(other for other in found if other.lower() != lower))


_Senses = dict[str, list[list[str]]]  # base form: the words of each of its senses
_BaseForms = dict[str, list[str]]  # irregular form: its base forms


@cache
def _read_table() -> tuple[dict[str, _Senses], dict[str, _BaseForms]]:
    senses: dict[str, _Senses] = {name: defaultdict(list) for name in _ENDINGS}
    base_forms: dict[str, _BaseForms] = {name: {} for name in _ENDINGS}
    with open_text(_TABLE) as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            kind, entry = line.rstrip("\n").split("\t")
            words = entry.split(" ")
            if kind.endswith(".exc"):
                base_forms[kind.removesuffix(".exc")].setdefault(words[0], []).extend(words[1:])
                continue
            sense = [word.replace("_", " ") for word in words]
            for word in sense:
                if " " not in word:
                    senses[kind][word.lower()].append(sense)
    return senses, base_forms
