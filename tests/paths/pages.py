"""Reading Markdown pages: fenced blocks, links, headings, and whether output is what a page shows.

A fence of ``python`` is code. What it prints stands in the fence of ``text`` right below it.
"""

import contextlib
import io
import re
from dataclasses import dataclass

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.(\d+))?(?:e[-+]?\d+)?(?![\w])")


@dataclass
class Code:
    """A block of Python, and the output that the page shows below it, None without one."""

    line: int
    source: str
    shown: str | None


def code_of(text):
    """The blocks of Python of a page, in order."""
    fences = list(re.finditer(r"^```(\w*)\n(.*?)^```$\n?", text, flags=re.MULTILINE | re.DOTALL))
    found = []
    for number, fence in enumerate(fences):
        if fence[1] != "python":
            continue
        below = fences[number + 1] if number + 1 < len(fences) else None
        attached = below is not None and not text[fence.end() : below.start()].strip()
        shown = below[2] if attached and below[1] == "text" else None
        found.append(Code(text[: fence.start()].count("\n") + 2, fence[2], shown))
    return found


def run(page, code, known):
    """What the block prints, run among the names that earlier blocks of the page have left."""
    # The lines of the page, so that a traceback points there.
    padded = "\n" * (code.line - 1) + code.source
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(padded, page, "exec"), known)
    return printed.getvalue()


def differences(shown, printed):
    """The lines of output that differ from those shown, as text; empty if they agree.

    Words and whole numbers have to be equal, blanks apart. A number with decimals may differ by one
    in its last digit, as platforms round differently.
    """
    ours, theirs = printed.rstrip().splitlines(), shown.rstrip().splitlines()
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=False) if not _agree(a, b)]
    told = [f"prints {a!r}, the page shows {b!r}" for a, b in pairs]
    if len(ours) != len(theirs):
        told.append(f"prints {len(ours)} lines, the page shows {len(theirs)}: {printed!r}")
    return "\n".join(told)


def _agree(ours, theirs):
    if NUMBER.sub("#", ours).split() != NUMBER.sub("#", theirs).split():
        return False
    pairs = zip(NUMBER.finditer(ours), NUMBER.finditer(theirs), strict=True)
    return all(_near(a, b) for a, b in pairs)


def _near(ours, theirs):
    if ours[1] is None or theirs[1] is None or "e" in theirs[0]:
        return ours[0] == theirs[0]
    step = 10.0 ** -len(theirs[1])
    return len(ours[1]) == len(theirs[1]) and abs(float(ours[0]) - float(theirs[0])) < 1.5 * step


def links_of(text):
    """Targets of links and pictures inside the project: (path, anchor), either may be empty."""
    targets = re.findall(r"\]\(([^)\s]+)\)", _without_code(text))
    inside = [target for target in targets if "://" not in target and not target.startswith("mailto:")]
    return [tuple(target.partition("#")[::2]) for target in inside]


def _without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
