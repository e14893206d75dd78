"""The JSON contract: one module per noun, paths, and the table of errors."""
