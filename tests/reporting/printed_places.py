"""The places of the summary, the card and the report that hold a number: sentences, cells of
tables, and the texts and bars of charts, each under its headings.

A place is a path such as `report / Outcomes by kind / EMAIL_ADDRESS / occurrences` with a text. The
text is cut into clauses, and each number in a clause is written as `#`: `# of # removed values
found in # forms`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

# hashes, dates, size categories, versions, sizes, shares and counts; digits beside a letter, a dot
# or a hyphen belong to a name (UTF-16, base64, train-00000-of-00001.parquet)
NUMBER = re.compile(
    r"(?<![\w.-])(?:[0-9a-f]{64}|[0-9a-f]{16}|\d{4}-\d\d-\d\d"
    r"|[<>]?\d[\d,]*(?:[.]\d+)*(?:%| [KMGT]?B\b)?)(?![\w-])"
    r"|n[<>]\d+[KM]|\d+[KM]<n<\d+[KM]|\b10{,2}[KMG]\b"
)
# words with a digit that are no number: forms, files, kinds
_NAMES = re.compile(
    r"base(?:64|32(?:hex)?)|ASCII85|UTF-\d+|data/[a-z]+-(?:b\d{4}-)?\d{5}-of-\d{5}[.]parquet|X500_NAME|IPv[46]|sha256"
)
# sections with cells that are texts: those of invented people are read as a whole, those of the
# corpus are masked and have no numbers
SAMPLES, MASKED_SAMPLES = (
    "Before and after: invented people",
    "Before and after: the corpus, by shape",
)
_BLOCKS = {"title", "h1", "h2", "h3", "p", "li", "dt", "dd", "th", "td", "figcaption", "summary"}


@dataclass(frozen=True)
class Place:
    """A text of a page and where it is."""

    path: tuple[str, ...]
    text: str

    def clauses(self) -> Iterator[tuple[str, list[str]]]:
        """Yields the clauses that hold a number: the path and the clause with `#` for each number,
        and these numbers as they are printed."""
        is_text = self.path[-1] in ("before", "after") and SAMPLES in self.path
        if len(self.path) > 2 and MASKED_SAMPLES in self.path:
            return
        for clause in [self.text] if is_text else re.split(r"[;,] |[.] ", self.text):
            numbers = NUMBER.findall(clause)
            masked = NUMBER.sub("#", clause).strip().removesuffix(".")
            if is_text:
                yield " / ".join(self.path), [clause]
            elif numbers or re.search(r"\d", _NAMES.sub("", masked)):
                yield " / ".join([*self.path, masked]), numbers


def find_summary_places(text: str) -> list[Place]:
    """The places of the text that a result shows at a prompt."""
    title, *lines = text.splitlines()
    places, header = [Place(("summary", "title"), title)], None
    for line in lines:
        name, *cells = re.split(r"\s{2,}", line.strip())
        if name == "kind":
            header = cells
        elif header is None:
            places.append(Place(("summary", name), " ".join(cells)))
        else:
            assert len(cells) == len(header)
            places += [
                Place(("summary", "kinds", name, column), cell)
                for column, cell in zip(header, cells, strict=True)
            ]
    return places


def find_card_places(text: str) -> list[Place]:
    """The places of the card: its head line by line, then sentences, items and tables."""
    _, head, body = text.split("---\n", 2)
    path, places = ("card", "head"), list[Place]()
    for line in head.splitlines():
        text = line.strip().removeprefix("- ")
        name, _, value = text.partition(": ")
        if not line.startswith(("-", " ")):
            path = ("card", "head", name.removesuffix(":"))
        elif name == "name":  # of a column or a split
            path = (*path[:3], value)
        places.append(Place(path, text))
    heading, header = "", list[str]()
    for line in body.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif not line.startswith("|"):
            header = []
            name, _, text = line.removeprefix("- ").rpartition("**: ")
            path = ("card", heading, *([name.removeprefix("**")] if name else []))
            places.append(Place(path, text.replace("\\", "")))
        elif not header:
            header = cells
        elif not set(line) <= set("|-: "):
            places += [
                Place(("card", heading, cells[0].replace("\\", ""), column), cell)
                for column, cell in zip(header, cells, strict=True)
            ]
    return places


def find_report_places(html: str) -> list[Place]:
    """The places of the report. Texts outside of any known element are places too."""
    page = _ReportPage()
    page.feed(html)
    page.close()
    return page.places


@dataclass
class _Row:
    cells: list[str] = field(default_factory=list)
    is_note: bool = False  # one cell over all columns: it belongs to the row before


class _ReportPage(HTMLParser):
    """Collects the places of the report."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Place] = []
        self.headings: list[str] = ["", ""]
        self.blocks: list[tuple[str, list[str]]] = []  # open elements with their text
        self.header: list[str] = []
        self.row = _Row()
        self.label = ""  # of the last row, term or bar
        self.chart = ""  # class of the open chart
        self.is_style = self.is_head = False

    def add(self, text: str, *path: str) -> None:
        headings = [heading for heading in self.headings if heading]
        self.places.append(Place(("report", *headings, *path), text))

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if tag == "style":
            self.is_style = True
        elif tag in _BLOCKS or (tag == "text" and self.chart):
            self.blocks.append((tag, []))
            self.row.is_note |= "colspan" in named
        elif tag == "table":
            self.header = []
        elif tag == "thead":
            self.is_head = True
        elif tag == "tr":
            self.row = _Row()
        elif tag == "svg":
            self.chart = named.get("class", "")
            for part in re.split(r"; |[.] ", named.get("aria-label", "")):
                name, _, counts = part.partition(": ")
                for count in counts.split(", "):
                    self.add(count, "chart", name)
        elif tag == "rect" and self.chart:
            segment = named["class"].removeprefix("part ")
            self.add(named["width"], f"{self.chart} bar", self.label, segment)

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self.is_style = False
        elif tag == "svg":
            self.chart = ""
        elif tag == "tr":
            self._end_row()
        elif tag == "thead":
            self.is_head = False
        elif tag in "b" and self.blocks:
            self.blocks[-1][1].append(" ")
        elif self.blocks and self.blocks[-1][0] == tag:
            self._end_block(tag, " ".join("".join(self.blocks.pop()[1]).split()))

    def _end_block(self, tag: str, text: str) -> None:
        if tag in ("h2", "h3"):
            self.headings = [text, ""] if tag == "h2" else [self.headings[0], text]
        elif tag == "dt":
            self.label = text
        elif tag == "dd":
            self.add(text, self.label)
        elif tag in ("td", "th"):
            self.row.cells.append(text)
        elif tag == "text" and self.chart == "curves":
            self.add(text, "axes")
        elif tag == "text" and NUMBER.fullmatch(text) is None:
            self.label = text  # the name of a bar, which its parts and its total follow
        elif tag == "text":
            self.add(text, f"{self.chart} total", self.label)
        else:
            self.add(text)
            if tag == "summary" and text != "as a table":  # of a chart, which has a heading
                self.headings[1] = text

    def _end_row(self) -> None:
        cells = self.row.cells
        if self.row.is_note:
            self.add(cells[0], self.label, "note")
            return
        if self.is_head:
            self.header = cells
            return
        self.label = cells[0]
        if cells[0].isdigit() and cells[1].isalpha():  # two cells name the row
            self.label = f"{cells[0]} {cells[1]}"
        for column, cell in zip(self.header or ["name", "value"], cells, strict=True):
            self.add(cell, self.label, column)

    def handle_data(self, data: str) -> None:
        if self.blocks:
            self.blocks[-1][1].append(data)
        elif data.strip() and not self.is_style:
            self.add(" ".join(data.split()), "outside of any element")
