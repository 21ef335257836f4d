"""Texts from outside: read strictly, shown so that every character is seen."""
