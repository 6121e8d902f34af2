"""A Diagnosis → text for a terminal, Markdown or HTML."""
