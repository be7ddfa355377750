"""Tables of estimates, and their rendering as HTML, Markdown, LaTeX, CSV, JSON and text."""
