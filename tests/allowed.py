"""Allow-lists of style findings. They hold exact counts, and the counts can only fall.

Each area has one text file per kind of finding, so people who edit different areas get no merge
conflicts. Each line holds a name (a file or an object), a rule and a count. A test fails if a count is
too low, and also if it is too high: the commit that fixes a finding lowers the count.

In this module, findings are a dictionary that maps (name, rule) to a list of messages.
"""

from collections import Counter
from pathlib import Path

FILES = Path(__file__).with_name("files")
COMMAND = "python tests/prose.py --lower"


def read(kind, area):
    """Return the allowed counts of an area, by (name, rule)."""
    path = _path(kind, area)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(name, rule): int(count) for name, rule, count in map(str.split, lines)}


def write(kind, area, counts):
    """Store the allowed counts of an area. Call it with larger counts only to introduce a rule."""
    path = _path(kind, area)
    lines = [f"{name} {rule} {count}\n" for (name, rule), count in sorted(counts.items()) if count]
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


def areas(kind):
    """Return the areas that have an allow-list."""
    return [path.stem for path in (FILES / kind).glob("*.txt")]


def complaints(kind, area, findings):
    """Compare the findings of an area with its allow-list and describe all differences."""
    allowed, found = read(kind, area), count(findings)
    described = []
    for name, rule in sorted(allowed.keys() | found.keys()):
        limit, number = allowed.get((name, rule), 0), found.get((name, rule), 0)
        if number > limit:
            described.append(f"{name}: {rule} {number} times, but allowed {limit} times:")
            described += findings[name, rule]
        elif number < limit:
            described.append(f"{name}: {rule} {number} times, but listed {limit} times: {COMMAND}")
    return described


def lower(kind, area, findings):
    """Store the present counts of an area if they are lower.

    Text can move between the files of an area. A count may therefore rise if the sum of the area for
    this rule does not.
    """
    allowed, found = read(kind, area), count(findings)
    rising = _by_rule(found) - _by_rule(allowed)
    lowered = {
        (name, rule): min(number, allowed.get((name, rule), 0)) if rule in rising else number
        for (name, rule), number in found.items()
    }
    write(kind, area, lowered)


def count(findings):
    """Return the number of findings by (name, rule)."""
    return {key: len(messages) for key, messages in findings.items() if messages}


def _by_rule(counts):
    total = Counter()
    for (_, rule), number in counts.items():
        total[rule] += number
    return total


def _path(kind, area):
    return FILES / kind / f"{area}.txt"
