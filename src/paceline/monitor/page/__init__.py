"""The reports as HTML pages: their markup, charts, tables, style and script."""

from paceline.monitor.page.content import make_page
from paceline.monitor.page.gossip_content import make_gossip_page
from paceline.monitor.page.pool_content import make_pool_page
from paceline.monitor.page.split_content import make_split_page

__all__ = ["make_gossip_page", "make_page", "make_pool_page", "make_split_page"]
