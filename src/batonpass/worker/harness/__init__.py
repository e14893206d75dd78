"""Harnesses: how each agent program is started, handed its prompt, and understood."""
