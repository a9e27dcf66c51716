"""Contract suites and fakes, for Paceline's own tests and for authors of plug-ins.

A suite is a class of pytest tests; inherit from it and provide the fixtures its docstring names.
"""
