"""The database: its clock, its locks, its errors, and what happens while it is away."""
