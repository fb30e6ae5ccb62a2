#!/usr/bin/env python3
"""Check the rules of `docs/project/style.md` in docstrings, messages, help texts and pages.

    .ci/prose                       # all files
    .ci/prose structinv/oracles     # names that start like this

Modules are parsed, not imported.
"""

import ast
import re
import sys
from bisect import bisect
from itertools import accumulate, pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SUMMARY_LENGTH = 79
SENTENCE_LENGTH = 25
# A page of the site is read at a width of 80 characters, and on a telephone.
CODE_WIDTH = 79
COLUMNS = 6

# Such as (n_samples, n_features).
SHAPE = r"\(\w[\w +*-]*,[\w +*,-]*\)"
# Summaries, descriptions of parameters and help texts must make sense on their own.
DESCRIPTION_START = r"(?:What|Of|To|As|How|Those|That|See)\b"
SUMMARY_START = rf"{DESCRIPTION_START}|(?:Whether|Which|Where|Who)\b"
# Expressions to avoid, and what to write instead.
WORDS = {
    r"as (?:it|they) (?:is|are|was|were)": "unchanged, as given",
    r"anew|afresh|once more": "again",
    r"besides?": "next to, in addition to",
    r"but for": "except",
    r"in the place of": "instead of",
    r"some \d+": "about",
    r"rightly": "correctly",
    r"at worst": "in the worst case",
    r"of (?:one's|its|your|their|our) own": "custom, separate, your own",
    r"alike": "equally",
    r"as ever|be (?:it|they)|hurr(?:y|ied)|welcome": "another expression",
    r"whoever|nobody|somebody|anybody": "users, authors, attackers",
    r"whatever": "any, regardless of",
    r"theirs": "the noun",
    r"nothing but": "only",
    r"(?<!there )(?:is|are|was|were) (?:none|no(?! (?:less|more|longer)))": "what it is, or 'is not a'",
    r"tells|told|says|said|hears?|heard|speaks? of": "returns, gives, describes, is defined",
    r"(?<!frequently )ask(?:s|ed)?|wants|expects": "calls, requests, requires",
    r"knows|fears?|minds?": "stores, supports, depends on",
    r"carr(?:y|ies|ied)|handed over": "contains, stores, passed",
    r"looked at": "checked, read",
    r"mend(?:s|ed|ing)?": "corrected, fixed",
    r"(?<!in )turn(?:s|ed|ing)?": "rotate, flip, change",
    r"programmes?": "program",
    r"doors?|rooms?|strangers?": "the thing that is meant",
    r"(?<!power )laws?": "distribution",
    r"(?:kernel|linear|robust|orbit|plain|set) machines?": "model, kernel SVM",
    r"too(?=[.,;:)])": "also",
}
ANY_WORD = re.compile("|".join(rf"\b({pattern})\b" for pattern in WORDS), flags=re.IGNORECASE)
# The docstring of a gallery script starts with the title of its page.
GALLERY_TITLE = r"\n?[^\n]+\n=+\n"
PARAMETER = r"^ *[\w*, ]+ : "
SENTENCE_END = r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9])"
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# They quote words that the pages must not use, or make sentences of them.
UNCHECKED = {"docs/project/style.md", "structinv/datasets/tagged_text.py"}


def files():
    """All modules, examples and pages with rules, by name."""
    patterns = ("structinv/**/*.py", "examples/**/*.py", "*.md", "docs/**/*.md")
    paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    named = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {name: path for name, path in named.items() if name not in UNCHECKED}


def of_page(text):
    """Yield (line, rule, message) for each breach in a Markdown page."""
    prose = _blanked(r"^```.*?^```$|<!--.*?-->", text)
    yield from _words(1, prose)
    yield from _sentences(1, prose)
    yield from _wide_code(text)
    for number, line in enumerate(prose.split("\n"), 1):
        cells = len(re.split(r"(?<!\\)\|", line)) - 2 if line.startswith("|") else 0
        if cells > COLUMNS:
            yield number, "columns", f"{cells} columns in a table"


def _wide_code(text):
    """Yield lines of blocks of code and of their output that a page cuts."""
    for block in re.finditer(r"^```\w+\n(.*?)^```$", text, flags=re.M | re.S):
        first = text.count("\n", 0, block.start(1)) + 1
        for number, line in enumerate(block[1].split("\n"), first):
            if len(line) > CODE_WIDTH:
                yield number, "code-width", f"{len(line)} characters: {line.strip()[:50]} ..."


def of_module(text):
    """Yield (line, rule, message) for each breach in public docstrings, messages and help texts."""
    tree = ast.parse(text)
    for docstring in _docstrings(tree):
        yield from _of_docstring(docstring.lineno, docstring.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "help":
            yield from _description(node.value.lineno, _joined(node.value))
    for line, string in _strings(tree):
        yield from _words(line, string)
    for line, cell in _cells(text):
        yield from _words(line, cell)
        yield from _sentences(line, cell)


def _cells(text):
    """Yield the first line and the text of each comment of a gallery script that starts a cell."""
    for cell in re.finditer(r"^# %%.*(?:\n#.*)*", text, flags=re.M):
        yield text.count("\n", 0, cell.start()) + 1, re.sub(r"^# ?(?:%%)?", "", cell[0], flags=re.M)


def _of_docstring(line, text):
    if re.match(GALLERY_TITLE, text):
        yield from _words(line, text)
        yield from _sentences(line, _blanked(GALLERY_TITLE, text))
    else:
        yield from _of_api_docstring(line, text)


def _of_api_docstring(line, text):
    lines = text.split("\n")
    summary = lines[0].strip()
    if len(summary) > SUMMARY_LENGTH:
        yield line, "summary-length", f"{len(summary)} characters: {summary}"
    if not summary.endswith(".") or (len(lines) > 1 and lines[1].strip()):
        yield line, "summary-period", summary
    if re.match(SUMMARY_START, summary):
        yield line, "summary-start", summary
    for number, (above, below) in enumerate(pairwise(lines), line + 1):
        if re.match(PARAMETER, above):
            yield from _description(number, below.strip())
    prose = _blanked(rf"^ *>>>.*?(?:\n *\n|\Z)|{PARAMETER}.*$|^ *-+$", text)
    yield from _words(line, prose)
    yield from _sentences(line, prose)


def _description(line, text):
    if re.match(DESCRIPTION_START, text):
        yield line, "description-start", text


def _words(line, text):
    # Words are found across the ends of lines.
    words = list(re.finditer(r"\S+", _without_code(text)))
    starts = list(accumulate((len(word[0]) + 1 for word in words), initial=0))
    for match in ANY_WORD.finditer(" ".join(word[0] for word in words)):
        first = words[bisect(starts, match.start()) - 1]
        number = line + first.string.count("\n", 0, first.start())
        yield number, "words", f"{match[0]} ({list(WORDS.values())[match.lastindex - 1]})"


def _sentences(line, text):
    for number, block in _blocks(line, _without_code(text)):
        for sentence in re.split(SENTENCE_END, block):
            length = sum(bool(re.search(r"\w", word)) for word in sentence.split())
            if length > SENTENCE_LENGTH:
                yield number, "sentence-length", f"{length} words: {sentence.strip()[:60]} ..."


def _blocks(line, text):
    """Yield the first line and the text of each paragraph and of each item of a list."""
    start, block = line, []
    for number, each in enumerate([*text.split("\n"), ""], line):
        bare = each.strip()
        item = re.match(r"(?:[-*]|\d+\.) ", bare)
        if bare and not item and not bare.startswith(("#", "|")):
            block.append(bare)
            continue
        yield start, " ".join(block)
        start, block = (number, [bare[item.end() :]]) if item else (number + 1, [])


def _docstrings(node):
    """Yield the docstrings of a module and of all that it has under a public name."""
    if (docstring := _docstring(node)) is not None:
        yield docstring
    for child in ast.iter_child_nodes(node):
        is_public = isinstance(child, DEFINITIONS) and not child.name.startswith("_")
        if is_public and not isinstance(node, FUNCTIONS):
            yield from _docstrings(child)


def _docstring(node):
    first = node.body[0] if node.body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return first.value if is_text and isinstance(first.value.value, str) else None


def _strings(node):
    """Yield the line and the text of each string of three words or more that is not a docstring."""
    if isinstance(node, ast.Constant | ast.JoinedStr):
        text = _joined(node)
        if len(text.split()) >= 3:
            yield node.lineno, text
        return
    docstring = _docstring(node) if isinstance(node, (ast.Module, *DEFINITIONS)) else None
    for child in ast.iter_child_nodes(node):
        if docstring is None or getattr(child, "value", None) is not docstring:
            yield from _strings(child)


def _joined(node):
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [part.value if isinstance(part, ast.Constant) else "{}" for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def _blanked(pattern, text):
    """Remove what matches, but keep the lines."""
    return re.sub(pattern, lambda match: "\n" * match[0].count("\n"), text, flags=re.M | re.S)


def _without_code(text):
    # The shape of an array counts as a part of its name.
    text = re.sub(
        rf"(?:``[^`]*``|`[^`]*`)(?:\s{SHAPE})?|\$[^$]*\$",
        lambda match: "X" + "\n" * match[0].count("\n"),
        text,
    )
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


def main(starts):
    """Print all breaches, and return 1 if there are any."""
    found = 0
    for name, path in files().items():
        if not name.startswith(starts):
            continue
        text = path.read_text(encoding="utf-8")
        for line, rule, message in of_page(text) if name.endswith(".md") else of_module(text):
            print(f"{name}:{line}: {rule}: {message}")
            found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or ""))
