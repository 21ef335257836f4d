"""`python -m dashboard.door`: write the table of verbs into docs/security.md."""

from pathlib import Path

from dashboard.door.markdown import in_place

PAGE = Path(__file__).parents[2] / "docs" / "security.md"

if __name__ == "__main__":
    PAGE.write_text(in_place(PAGE.read_text()))
