"""Screenshots of pages: pictures that are kept with a snapshot."""
