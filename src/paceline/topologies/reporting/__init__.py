"""How topologies report their runs: tables of events, sections of pages, lines and live tables of terminals."""
