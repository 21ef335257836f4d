"""The questions and plans that agents put to a person themselves."""
