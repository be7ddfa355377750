"""Tables of estimates, and their formats: HTML, Markdown, LaTeX, CSV, JSON and text."""
