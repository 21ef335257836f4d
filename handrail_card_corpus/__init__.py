"""Display attacks on the cards of a review desk, as data, and a program that tries them on any desk.

`cases.json` holds {version, cases: [{name, why, tool, arguments, shows, lacks}]}: a call, and the texts that a person
must see on its card, and must not see, once everything that is folded was opened.
"""
