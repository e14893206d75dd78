"""A scripted model, in the languages that agent programs speak with theirs."""
