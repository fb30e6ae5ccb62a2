"""Tables of the records of benchmarks, in pages: the directives ``record`` and ``records``.

``record`` with the names of a record and a table, such as ``malware/detected``, shows a whole table.
``records`` with names of records lists their commands, data and versions. The numbers stand in
``benchmarks/records`` only.
"""

import re
import sys
from functools import cache
from pathlib import Path

from sklearn.utils.discovery import all_estimators
from sphinx.util.docutils import SphinxDirective

from api_links import paths

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import tables  # noqa: E402

NAME = re.compile(r"(?<![`\w])([A-Z]\w+)(\([^()]*\))?(?![`\w])")
NO_BREAK = "\N{NO-BREAK SPACE}"


@cache
def names():
    """Return the classes of structinv and of scikit-learn."""
    return {*paths(), *(name for name, _ in all_estimators())}


def with_code(text):
    """Return a text with the names of classes, and their calls, as inline code."""
    return NAME.sub(lambda match: f"`{match[0]}`" if match[1] in names() else match[0], text)


class RecordTable(SphinxDirective):
    """A whole table of a record, below its title."""

    required_arguments = 1

    def run(self):
        """Return the nodes of the table; a long one is folded."""
        self.env.note_dependency(str(tables.FOLDER / f"{self.arguments[0].partition('/')[0]}.json"))
        table = tables.table_of(self.arguments[0])
        title = with_code(table.title[:1].upper() + table.title[1:])
        body = without_breaks("\n\n".join(tables.markdown(table, with_code)))
        if len(table.rows) > tables.LONG:
            return self.parse_text_to_nodes(
                f":::{{dropdown}} {title} ({len(table.rows)} rows)\n\n{body}\n\n:::"
            )
        return self.parse_text_to_nodes(f"*{title}*\n\n{body}")


class RecordSources(SphinxDirective):
    """Commands, data and versions of records."""

    required_arguments = 1
    optional_arguments = 20

    def run(self):
        """Return the nodes of a table with one row per record."""
        for name in self.arguments:
            self.env.note_dependency(str(tables.FOLDER / f"{name}.json"))
        return self.parse_text_to_nodes(tables.sources(self.arguments))


def without_breaks(text):
    """Keep numbers and their units on one line, outside code."""
    parts = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.S)
    parts[::2] = [re.sub(r"(?<=\d) %", f"{NO_BREAK}%", one) for one in parts[::2]]
    parts[::2] = [re.sub(r"± (?=\d)", f"±{NO_BREAK}", one) for one in parts[::2]]
    return "".join(parts)


def unbroken(app, docname, source):
    """Keep numbers and their units on one line in a page."""
    source[0] = without_breaks(source[0])


def setup(app):
    """Add the directives."""
    app.add_directive("record", RecordTable)
    app.add_directive("records", RecordSources)
    app.connect("source-read", unbroken)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
