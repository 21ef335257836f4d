"""The OpenAPI document names each body once: of two classes with one name it would describe only the later one."""

from collections import defaultdict

from ninja import Schema

from dashboard import urls  # noqa: F401 - loads every route, and so every body


def bodies(of=Schema):
    for each in of.__subclasses__():
        yield each
        yield from bodies(each)


def test_no_two_bodies_have_the_same_name():
    places = defaultdict(set)
    for body in bodies():
        places[body.__name__].add(body.__module__)
    assert len(places) > 100
    assert {name: sorted(modules) for name, modules in places.items() if len(modules) > 1} == {}
