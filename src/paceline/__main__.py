"""``python -m paceline``: the same as the ``paceline`` command."""

from paceline.cli import main

main()
