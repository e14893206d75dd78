"""Public test helpers: manual clock, in-process server, scripted agents, named points."""
