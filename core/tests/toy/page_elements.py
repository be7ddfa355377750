"""The elements of a page, read from its HTML."""

from __future__ import annotations

from html.parser import HTMLParser


class Elements(HTMLParser):
    """Elements with their attributes and text; fails where a tag is not closed, or an attribute is a script."""

    VOID = frozenset({"meta", "link", "input", "wbr", "img", "br"})

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.elements = []
        self.texts = []
        self.feed(text)
        self.close()

        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        attributes = dict(attrs)

        assert len(attributes) == len(attrs), attrs

        for name in attributes:
            assert not name.startswith("on"), name

        self.elements.append((tag, attributes))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)

    def all(self, tag, **attributes):
        elements = []
        for name, of_element in self.elements:
            if name == tag and attributes.items() <= of_element.items():
                elements.append(of_element)
        return elements

    def values(self, *names):
        """The values of the attributes with these names, in the order of the page."""
        values = []
        for _, attributes in self.elements:
            for name, value in attributes.items():
                if name in names:
                    values.append(value)
        return values
