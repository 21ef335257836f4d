"""Filters and tags of templates: moments, events, measures."""
