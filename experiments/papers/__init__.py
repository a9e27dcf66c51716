"""Settings, trials and measures that several experiments of one paper share; imported as ``papers.fpl`` and so on."""
