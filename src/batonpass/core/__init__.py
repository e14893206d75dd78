"""Pure law: no input or output, no clock, no third-party import."""
