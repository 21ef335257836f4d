"""Text of files that are not plain UTF-8 text: UTF-16, and notebooks as their cells. Only for showing."""

import codecs
import hashlib
import json

UTF_16, NOTEBOOK = "utf-16", "notebook"
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def readable(path: str, old: bytes | None, new: bytes | None) -> tuple[bytes | None, bytes | None, str]:
    """Return both sides as text to compare, and how they were converted: UTF_16, NOTEBOOK or "".

    If one side cannot be converted, neither is.
    """
    sides = [side for side in (old, new) if side]
    if path.endswith(".ipynb") and sides:
        cells = [_notebook(side) if side else side for side in (old, new)]
        if all(cell is not None or not side for cell, side in zip(cells, (old, new), strict=True)):
            return cells[0], cells[1], NOTEBOOK
    if any(side.startswith(_MARKS) for side in sides):
        texts = [_from_utf_16(side) for side in (old, new)]
        if all(text is not None or side is None for text, side in zip(texts, (old, new), strict=True)):
            return texts[0], texts[1], UTF_16
    return old, new, ""


def _from_utf_16(data: bytes | None) -> bytes | None:
    """Return the text in UTF-8; other text as it is; None if it is UTF-16 only by its first bytes."""
    if data is None or not data.startswith(_MARKS):
        return None if data is None or b"\0" in data else data
    try:
        return data.decode("utf-16").encode()
    except UnicodeError:
        return None


def _notebook(data: bytes) -> bytes | None:
    """Return a notebook's cells as text, each under a heading, with a summary of its outputs; None if it is none."""
    try:
        book = json.loads(data)
        lines = [line for cell in book["cells"] for line in _cell(cell)]
        return "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _cell(cell: dict):
    # The heading has no number, since each cell that is put in would change those after it.
    yield f"# ── {cell['cell_type']} ──"
    yield from _text(cell.get("source", "")).split("\n")
    for output in cell.get("outputs", ()):
        yield f"# → {_output(output)}"
    yield ""


def _output(output: dict) -> str:
    kind = output["output_type"]
    if kind == "stream":
        return _summary(str(output.get("name", "stream")), _text(output.get("text", "")))
    if kind == "error":
        return f"{output.get('ename', 'error')}: {output.get('evalue', '')}".replace("\n", " ")
    data = output.get("data", {})
    return "; ".join(
        _summary(name, _text(value) if isinstance(value, str | list) else json.dumps(value, sort_keys=True))
        for name, value in data.items()
    )


def _summary(name: str, text: str) -> str:
    """Return a short text of one line whole; of another text its size and the beginning of its digest."""
    if len(text) <= 80 and "\n" not in text.strip():
        return f"{name}: {text.strip()}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    lines = text.count("\n") + 1
    size = f"{lines:,} lines" if name.startswith("text/") or lines > 1 else f"{len(text):,} characters"
    return f"{name}: {size}, {digest}"


def _text(source) -> str:
    return source if isinstance(source, str) else "".join(source)
