"""Texts of any method, kept in a file: the same request is written once, whatever asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from linda import methods
from linda.files.cache import CacheFile, cache_key
from linda.methods import AugmentationMethod


class CachedMethod(AugmentationMethod):
    """A method that writes only texts that are not in the cache.

    The text of a row depends on its parents, its ratio and its seed alone. So rows with other labels, rows of a larger
    draw and rows for another classifier are often the same requests.

    Args:
        name: Name of the method.
        load: Loads the method; called when a text is missing.
        cache: The file.
        settings: Everything else that its texts depend on: the names of its models, the version.

    Example:
        CachedMethod("eda", Eda, open_cache(Path("texts.cache")), [__version__])
    """

    def __init__(
        self, name: str, load: Callable[[], AugmentationMethod], cache: CacheFile, settings: Sequence[str]
    ) -> None:
        self.name = name
        self.needs_partner = methods.find(name).needs_partner
        self._load = load
        self._cache = cache
        self._settings = list(settings)

    @cached_property
    def _method(self) -> AugmentationMethod:
        return self._load()

    @cached_property
    def sampling(self) -> CachedMethod:
        return CachedMethod(self.name, lambda: self._method.sampling, self._cache, [*self._settings, "sampling"])

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        columns = [a, [None] * len(a) if b is None else b, [None] * len(a) if alpha is None else alpha, seeds]
        keys = [cache_key(self.name, self._settings, *row) for row in zip(*columns, strict=True)]
        known = self._cache.get(keys)
        missing = list({key: row for row, key in enumerate(keys) if key not in known}.values())
        if missing:
            written = self._method.texts(
                [a[row] for row in missing],
                None if b is None else [b[row] for row in missing],
                None if alpha is None else [alpha[row] for row in missing],
                [seeds[row] for row in missing],
            )
            new = {keys[row]: text.encode() for row, text in zip(missing, written, strict=True)}
            self._cache.put(new)
            known |= new
        return [known[key].decode() for key in keys]
