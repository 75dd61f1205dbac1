"""Word classes: frequent words are their own class; rare words are grouped by shape and ending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

#: endings that indicate English parts of speech; the first match is used
_ENDINGS = (
    "tion", "ment", "ness", "able", "ible", "ally", "ing", "ion", "ity", "ous", "ive", "ful", "ism", "ist",
    "est", "ate", "ies", "ed", "er", "or", "ly", "al", "ic", "en", "th", "'s", "s", "y",
)  # fmt: skip
_ANY = "<unknown>"


def signature(word: str) -> tuple[str, str]:
    """The shape of a word, and its shape with its ending.

    Examples
    --------
    >>> from maxmargin.tasks.parsing.lexicon import signature
    >>> signature("Walking"), signature("1984"), signature("zzz")
    (('<Aa>', '<Aa>-ing'), ('<0>', '<0>'), ('<a>', '<a>'))
    """
    if any(c.isdigit() for c in word):
        shape = "0a" if any(c.isalpha() for c in word) else "0"
    elif not any(c.isalpha() for c in word):
        shape = "."
    elif word[0].isupper():
        shape = "A" if word.isupper() and len(word) > 1 else "Aa"
    else:
        shape = "a"
    if "-" in word and len(word) > 1:
        shape += "-"
    shape = f"<{shape}>"
    lower = word.lower()
    for ending in _ENDINGS:
        if shape[1] in "Aa" and lower.endswith(ending) and len(lower) > len(ending) + 1:
            return shape, f"{shape}-{ending}"
    return shape, shape


def attributes(sentence: Sequence[str]) -> list[list[str]]:
    """Attributes of each word that indicate its tag: form, endings, shape and neighboring words.

    Examples
    --------
    >>> from maxmargin.tasks.parsing.lexicon import attributes
    >>> attributes(["It", "rains"])[1]
    ['w=rains', '2=ns', '3=ins', '4=ains', '<a>', '<a>-s', '-1=it', '+1=']
    """
    lower = [word.lower() for word in sentence]
    padded = ["", *lower, ""]
    out = []
    for t, word in enumerate(sentence):
        own = [f"w={lower[t]}"]
        own += [f"{k}={lower[t][-k:]}" for k in (2, 3, 4) if len(word) > k]
        own += dict.fromkeys(signature(word))
        if t == 0:  # the first word is capitalized anyway
            own = [*own, f"first {own[-1]}"]
        out.append([*own, f"-1={padded[t]}", f"+1={padded[t + 2]}"])
    return out


class Lexicon:
    """The map from words to word classes.

    A word that occurs at least ``min_count`` times is its own class. Otherwise its lower-case form is tried,
    then the class of its shape and ending, then that of its shape, if these have at least ``min_count`` rare
    words. All other words belong to one class of unknown words. The same rules apply to rare words of the
    training sentences, so the weights of all classes are trained.
    """

    def __init__(self, names: Sequence[str], n_words: int) -> None:
        #: names of the classes: words, then signatures, then the class of unknown words
        self.names = list(names)
        self.n_words = n_words
        self._words = {name: k for k, name in enumerate(self.names[:n_words])}
        self._shapes = {name: n_words + k for k, name in enumerate(self.names[n_words:])}

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], min_count: int) -> Lexicon:
        """Learn the classes from the words of these sentences."""
        counts: Counter[str] = Counter(word for sentence in sentences for word in sentence)
        frequent = sorted(word for word, count in counts.items() if count >= min_count)
        known = set(frequent)
        shapes: Counter[str] = Counter()
        for word, count in counts.items():
            if word not in known and word.lower() not in known:
                for shape in set(signature(word)):
                    shapes[shape] += count
        kept = sorted(shape for shape, count in shapes.items() if count >= min_count)
        return cls([*frequent, *kept, _ANY], len(frequent))

    def __len__(self) -> int:
        return len(self.names)

    def is_word(self, number: int) -> bool:
        """Whether a class is a single word (and not a class of rare words)."""
        return number < self.n_words

    def number(self, word: str) -> int:
        """The index of the class of a word."""
        for form in (word, word.lower()):
            if form in self._words:
                return self._words[form]
        shape, ending = signature(word)
        for name in (ending, shape):
            if name in self._shapes:
                return self._shapes[name]
        return len(self.names) - 1
