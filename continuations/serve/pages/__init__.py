"""The HTML pages that signed links and the console share: views, templates, style."""
