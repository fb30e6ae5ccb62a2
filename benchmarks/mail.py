"""Mail corpora of the benchmarks: reading, removal of duplicates, word counts.

Four sources: the mailboxes enron1 to enron3 of the Enron-Spam collection (Metsis, Androutsopoulos and
Paliouras 2006) and the SpamAssassin public corpus. They are read from ``--data``, else from the
environment variable ``STRUCTINV_DATA``, else from ``../shared/data``; nothing is written.

Choices, made once and before any result:

- Enron mails are "Subject: ..." and a body. The word "Subject:" goes, what follows it stays.
- SpamAssassin mails are raw. Only the body is kept, since headers name the source: text parts (of
  alternatives the plain one, if it has any text), transfer encodings undone, HTML without tags, scripts
  and styles. Attachments go.
- Mails that are equal up to case and white space are one mail. The first is kept, over all sources
  together, so no mail is in two of them. Where copies disagree about the label, the first decides.
- Words are runs of at least two letters, digits or underscores, in lower case (the default of
  scikit-learn's CountVectorizer). Features are all words that occur in the training mailboxes, and none
  that occurs only in others.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

ENRON = ("enron1", "enron2", "enron3")
SPAMASSASSIN = "spamassassin"
FILES = {
    "enron": Path("enron_spam", "enron_spam_123.jsonl.xz"),
    SPAMASSASSIN: Path("spamassassin", "spamassassin.jsonl.xz"),
}
FORMS = ("counts", "log")


@dataclass(frozen=True)
class Mailbox:
    """Mails of one source."""

    name: str
    texts: list[str]
    y: np.ndarray


@dataclass(frozen=True)
class Bags:
    """Bags of words over the words of the training mailboxes."""

    train: sp.csr_matrix
    y: np.ndarray
    others: dict[str, tuple[sp.csr_matrix, np.ndarray]]


class Corpus:
    """Word counts of mailboxes, counted once."""

    def __init__(self, boxes: Mapping[str, Mailbox]) -> None:
        counter = CountVectorizer(dtype=np.float64)
        counts = counter.fit_transform([text for box in boxes.values() for text in box.texts])
        counts = sp.csc_matrix(counts).tocsr()
        ends = np.cumsum([0, *(len(box.y) for box in boxes.values())])
        self.counts = {
            name: counts[first:last]
            for name, first, last in zip(boxes, ends[:-1], ends[1:], strict=True)
        }
        self.labels = {name: box.y for name, box in boxes.items()}

    def bags(self, train: Sequence[str], others: Sequence[str] = (), form: str = "log") -> Bags:
        """Count words of some mailboxes, over the words of the training mailboxes.

        This is what a CountVectorizer fitted on the training mailboxes alone gives.
        """
        counts = sp.vstack([self.counts[name] for name in train], format="csr")
        known = np.unique(counts.indices)
        rest = {name: (weigh(self.counts[name][:, known], form), self.labels[name]) for name in others}
        y = np.concatenate([self.labels[name] for name in train])
        return Bags(weigh(counts[:, known], form), y, rest)


def load_mailboxes(folder: Path, *, spamassassin: bool = True) -> dict[str, Mailbox]:
    """Read the mailboxes without duplicates."""
    mails = [_enron_mail(record) for record in _records(folder / FILES["enron"])]
    if spamassassin:
        raw = _records(folder / FILES[SPAMASSASSIN])
        mails += [(SPAMASSASSIN, record["label"], body(record["text"])) for record in raw]
    boxes: dict[str, tuple[list[str], list[int]]] = {}
    seen = set()
    for source, label, text in mails:
        key = " ".join(text.lower().split())
        if key in seen:
            continue
        seen.add(key)
        texts, labels = boxes.setdefault(source, ([], []))
        texts.append(text)
        labels.append(1 if label == "spam" else -1)
    return {name: Mailbox(name, texts, np.array(labels)) for name, (texts, labels) in boxes.items()}


def describe(boxes: Mapping[str, Mailbox]) -> str:
    """One line with the sizes of the mailboxes."""
    sizes = (f"{box.name} {np.sum(box.y < 0)} ham {np.sum(box.y > 0)} spam" for box in boxes.values())
    return "; ".join(sizes)


def body(raw: str) -> str:
    """The text of a raw mail without its headers."""
    message = message_from_bytes(raw.encode("utf-8", "surrogateescape"))
    return "\n".join(_texts(message))


def weigh(counts: sp.csr_matrix, form: str) -> sp.csr_matrix:
    """Return rows in the requested form; see `Corpus.bags`."""
    if form not in FORMS:
        raise ValueError(f"form must be one of {FORMS}, got {form!r}")
    return counts if form == "counts" else normalize(counts.log1p(), copy=False)


def _records(path: Path) -> Iterator[dict]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _enron_mail(record: dict) -> tuple[str, str, str]:
    return record["corpus"], record["label"], record["text"].removeprefix("Subject:")


def _texts(part: Message) -> list[str]:
    """Texts of a part of a mail and of the parts it holds."""
    if part.is_multipart():
        inner = list(part.get_payload())
        if part.get_content_type() == "multipart/alternative":
            plain = [one for one in inner if one.get_content_type() == "text/plain"]
            texts = [text for one in plain for text in _texts(one)]
            if any(text.strip() for text in texts):
                return texts
        return [text for one in inner for text in _texts(one)]
    if part.get_content_maintype() != "text" or part.get_content_disposition() == "attachment":
        return []
    text = _decode(part)
    return [_without_tags(text) if part.get_content_subtype() == "html" else text]


def _decode(part: Message) -> str:
    content = part.get_payload(decode=True) or b""
    # Declared character sets of spam are often wrong or unknown.
    for charset in (part.get_content_charset(), "utf-8", "latin-1"):
        try:
            return content.decode(charset or "ascii")
        except (LookupError, UnicodeError, ValueError):
            continue
    return ""


class _TagStripper(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.pieces.append(" " if tag in _BREAKS else "")
        self.hidden += tag in _HIDDEN

    def handle_endtag(self, tag: str) -> None:
        self.pieces.append(" " if tag in _BREAKS else "")
        self.hidden = max(0, self.hidden - (tag in _HIDDEN))

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.pieces.append(data)


_HIDDEN = {"script", "style", "title"}
# Tags that end a word; <b> and <font> inside a word, a common trick, do not.
_BREAKS = {
    "address", "blockquote", "br", "center", "dd", "div", "dl", "dt", "form", "h1", "h2", "h3", "h4",
    "h5", "h6", "hr", "img", "input", "li", "ol", "option", "p", "pre", "select", "table", "tbody",
    "td", "textarea", "th", "title", "tr", "ul",
}  # fmt: skip


def _without_tags(text: str) -> str:
    stripper = _TagStripper()
    try:
        stripper.feed(text)
        stripper.close()
    except AssertionError:  # malformed declarations of spam; what was read so far is kept
        pass
    return "".join(stripper.pieces)
