"""Pages: sections of sentences, tables and figures, as HTML and as Markdown."""
