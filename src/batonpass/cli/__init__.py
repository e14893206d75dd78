"""The command line: commands and rendering, no business rules."""
