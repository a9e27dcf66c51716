"""Reads a page back as a tree, so that tests ask for structure and not for text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "input", "link"}


@dataclass
class Node:
    tag: str
    attributes: dict = field(default_factory=dict)
    children: list = field(default_factory=list)

    @property
    def text(self):
        """All text below, as it is without markup."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, tag=None, **attributes):
        """The nodes below with this tag and these attributes; `class_` asks for one of the classes."""
        found = []
        for child in self.children:
            if isinstance(child, Node):
                if child.fits(tag, attributes):
                    found.append(child)
                found += child.all(tag, **attributes)
        return found

    def one(self, tag=None, **attributes):
        (node,) = self.all(tag, **attributes)
        return node

    def fits(self, tag, attributes):
        wanted = dict(attributes)
        class_ = wanted.pop("class_", None)
        if class_ is not None and class_ not in (self.attributes.get("class") or "").split():
            return False
        return (tag is None or tag == self.tag) and all(
            self.attributes.get(key.replace("_", "-")) == value for key, value in wanted.items()
        )


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.stack = [Node("")]

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs))
        self.stack[-1].children.append(node)
        if tag not in _VOID:
            self.stack.append(node)

    def handle_endtag(self, tag):
        assert self.stack.pop().tag == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        self.stack[-1].children.append(data)


def read_page(html):
    """The root of the tree; fails if elements are not closed in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader.stack) == 1, f"not closed: {[node.tag for node in reader.stack[1:]]}"
    return reader.stack[0]


def rows_of(table):
    """The texts of a table's cells, heading first."""
    return [[cell.text for cell in row.children] for row in table.all("tr")]
