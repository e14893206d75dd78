"""What is tried on a server: a function for each case, whose name says what must come out."""
