"""The report as an HTML page: its markup, charts, tables, style and script."""

from paceline.monitor.page.content import make_page

__all__ = ["make_page"]
