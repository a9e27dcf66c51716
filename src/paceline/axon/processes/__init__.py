"""Functions in child processes, each itself a small worker; loaded with the first function that asks for one."""
