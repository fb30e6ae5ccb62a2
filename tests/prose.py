"""List the style findings of files, or lower the allowed counts to the present ones.

``python tests/prose.py [--lower] [AREA ...]``, where an area is for example ``structinv.oracles`` or
``docs.choose.md``; all areas by default. With ``--lower`` the exit code is 1 if a count is too low.
"""

import sys

import allowed
import numpydoc_rules
import prose_rules


def main(arguments):
    """List or lower, and return the exit code."""
    chosen = [argument for argument in arguments if argument != "--lower"]
    described = []
    for rules in (prose_rules, numpydoc_rules):
        for area, findings in _found(rules, chosen):
            if "--lower" in arguments:
                allowed.lower(rules.KIND, area, findings)
                described += allowed.complaints(rules.KIND, area, findings)
            else:
                described += [message for key in sorted(findings) for message in findings[key]]
    if described:
        print("\n".join(described))
    return int("--lower" in arguments and bool(described))


def _found(rules, chosen):
    areas = rules.areas()
    for area in sorted({*areas, *allowed.areas(rules.KIND)}):
        if not chosen or area in chosen:
            yield area, rules.findings(areas.get(area, []))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
