"""Filters and tags of templates: states, rows of differences."""
