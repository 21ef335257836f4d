"""Ports on which programs of a machine expect a certain service: no box takes their number on the host.

What listens there could stand in for the service and be given passwords, code, or the answer to a sign-in. The ports
that dev servers take by default are left out, such as 3000, 5173, 8000 and 8080.
"""


def _ports(text: str) -> frozenset[int]:
    found = set()
    for each in text.split():
        first, _, last = each.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


DATABASES = _ports(
    """
    1433 1434 1521-1526 1830 2181 2379 2380 2483 2484 3050 3306-3309 33060 4222 5432-5439 5671 5672 5984 6222 6333 6334
    6379-6389 6432 6543 7000 7001 7199 7474 7473 7687 7700 8086 8087 8091-8096 8108 8123 8222 8529 8983 9000 9009 9042
    9092-9094 9160 9200 9300 9440 11210 11211 15672 16379 1883 8883 19530 26257 26379 27017-27020 28015 29015 50000
    61613 61616
    """
)
REGISTRIES = _ports("3141 4873 5000 5001 5050 8081 8082 8484 9418 15000")
DEBUGGERS = _ports(
    "1044 1099 1234 2159 2345 3333 4444 4445 4711 5005 5037 5555 5678 5858 5859 6009 7091 8787 9003 9010 9222-9240 "
    "27042"
)
SIGN_INS = _ports(
    "1455 1717 3456 7777 8020 8085 8250 8400-8402 8976 9004 9005 9876 10000-10010 18000 49152 53682 54321-54324 54545"
)
MACHINE = _ports(
    """
    1025 1080 1087 2019 2049 2375-2377 2525 3128 3389 4317 4318 4369 4566 4646-4648 5353 5900-5910 5985 5986 6443 7890
    7891 8001 8025 8118 8200 8201 8300-8302 8443 8500-8503 8600 9050 9051 9090 9099 9100 9150 9323 9411 10250 10255
    10809 11434 16443 16686
    """
)
KNOWN = DATABASES | REGISTRIES | DEBUGGERS | SIGN_INS | MACHINE
