"""Shorten the command of a finding as long as what it does and what its verdict says still differ in the same way."""

from .campaign import judged
from .mutate import TOKEN
from .oracle import ALLOWING, findings

MOST = 150  # candidates of one round
ROUNDS = 12


def shortest(box, command, name):
    """Return the shortest text found that still has a difference of the class `name`."""
    for _ in range(ROUNDS):
        shorter = _shorter(box, command, name)
        if shorter is None:
            break
        command = shorter
    return command


def _shorter(box, command, name):
    allowed = {}
    for text in _candidates(command):
        verdict = judged(text)
        if verdict.tier in ALLOWING:
            allowed[text] = verdict
    cases = [{"number": at, "shell": "/bin/bash", "command": text} for at, text in enumerate(allowed)]
    for case, deed in box.run(cases):
        text = case["command"]
        if name in {found for found, _ in findings(allowed[text], deed)}:
            return text
    return None


def _candidates(command):
    """Return shorter texts, those that leave out most first."""
    tokens = TOKEN.findall(command)
    texts = {}
    size = len(tokens) // 2
    while size:
        for at in range(0, len(tokens) - size + 1, max(1, size // 2)):
            texts.setdefault("".join(tokens[:at] + tokens[at + size :]))
        size //= 2
    if len(command) < 80:
        texts |= dict.fromkeys(command[:at] + command[at + 1 :] for at in range(len(command)))
    return [text for text in texts if text.strip()][:MOST]
