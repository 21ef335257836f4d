"""A host as the first version was: protocol 1 on the wire, a real pty behind it, no `sizes` in its folder.

`python -m tests.terminals.host_one FOLDER COMMAND`
"""

import asyncio
import base64
import fcntl
import json
import os
import pty
import struct
import sys
import termios
from pathlib import Path

from workspaces.drivers.base import Address
from workspaces.drivers.initclient import short_address
from workspaces.hosts.folder import Exit, HostSpec, claim, identity, now, write_exit
from workspaces.hosts.recording import Recorder


class HostOne:
    def __init__(self, folder: Path, command: str):
        self.folder = folder
        spec = HostSpec.shell(command, Address(socket="/gone", cwd="/", env={}), pty=True, cols=90, rows=30)
        (folder / "spec.json").write_bytes(spec.to_json())
        claim(folder, by="host")
        for name in ("claim", "host.json"):
            content = {"by": "host"} | identity() | {"protocol": 1, "program_pid": 1}
            (folder / name).write_text(json.dumps(content))
        self.recorder = Recorder(folder, spec.cap_bytes)
        self.news, self.ended = asyncio.Condition(), False
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv("/bin/bash", ["bash", "-c", command])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))

    async def run(self):
        with short_address(self.folder / "socket") as address:
            await asyncio.start_unix_server(self.serve, address)
        while data := await asyncio.to_thread(self.read):
            self.recorder.write(data)
            async with self.news:
                self.news.notify_all()
        _, status = os.waitpid(self.pid, 0)
        self.recorder.close()
        total, code = self.recorder.total, os.waitstatus_to_exitcode(status)
        write_exit(self.folder, Exit("exited", exit_status=code, ended_at=now(), output_bytes=total))
        self.ended = True
        async with self.news:
            self.news.notify_all()
        await asyncio.sleep(0.1)

    def read(self) -> bytes:
        try:
            return os.read(self.fd, 65536)
        except OSError:
            return b""

    async def serve(self, reader, writer):
        while line := await reader.readline():
            request = json.loads(line)
            answer = {"protocol": 1, "total": self.recorder.total, "ended": self.ended, "program_pid": 1}
            if request["op"] == "wait":
                async with self.news:
                    await self.news.wait_for(lambda r=request: self.recorder.total > r["offset"] or self.ended)
                answer |= {"total": self.recorder.total, "ended": self.ended}
            elif request["op"] == "input":
                os.write(self.fd, base64.b64decode(request["data"]))
            elif request["op"] == "resize":
                size = struct.pack("HHHH", request["rows"], request["cols"], 0, 0)
                fcntl.ioctl(self.fd, termios.TIOCSWINSZ, size)
            else:
                answer = {"error": f"unknown operation {request['op']!r}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()


async def main():
    await HostOne(Path(sys.argv[1]), sys.argv[2]).run()


if __name__ == "__main__":
    asyncio.run(main())
