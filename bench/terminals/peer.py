"""terminado (PyPI) as a server: `python -m bench.terminals.peer PORT COMMAND`, one terminal at /ws/NAME."""

import asyncio
import sys

import tornado.web
from terminado import NamedTermManager, TermSocket


async def main(port: int, command: str):
    manager = NamedTermManager(shell_command=["bash", "-c", command])
    tornado.web.Application([(r"/ws/(\w+)", TermSocket, {"term_manager": manager})]).listen(port, "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
