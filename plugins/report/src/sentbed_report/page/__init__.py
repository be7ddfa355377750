"""Pages of reports: sections with sentences, tables and figures, rendered as HTML and as Markdown."""
