"""Claude Code as people run it in a script: `claude -p`, as an ordinary user, in a project of its own."""

import json
import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from approvals.agents.claude_code.settings import settings_to_copy
from dashboard import settings

NOBODY = 65534
DEPLOY = '#!/bin/sh\n# What it did stays on the disk, one line for each time.\necho "${1:-nothing}" >> ran\n'


class Project:
    """A folder with `deploy.sh`, whose every run leaves a line in `ran`; and the home of the user that works there."""

    def __init__(self, claude: str, model_url: str, hooks_url: str, token: str):
        self.claude, self.model_url = claude, model_url
        self.as_root = os.geteuid() == 0
        self._folder = tempfile.TemporaryDirectory(prefix="handrail-project-", ignore_cleanup_errors=True)
        self.root = Path(self._folder.name).resolve()
        self.home, self.folder = self.root / "home", self.root / "repo"
        (self.home / ".claude").mkdir(parents=True)
        (self.folder / ".claude").mkdir(parents=True)
        (self.folder / "deploy.sh").write_text(DEPLOY)
        (self.folder / "deploy.sh").chmod(0o755)
        # Exactly what the Connect page gives to copy, for this test's address.
        copied = json.dumps(settings_to_copy()).replace(settings.HANDRAIL_PUBLIC_URL, hooks_url)
        self.hooks = self.folder / ".claude" / "settings.json"
        self.hooks.write_text(copied)
        # Claude Code itself allows everything: nothing but our hook stands between the model and the disk. (In the
        # user's own settings: those of a folder that nobody has trusted allow nothing.)
        allowed = {"permissions": {"allow": ["Bash", "Edit", "Write", "Agent"]}}
        (self.home / ".claude" / "settings.json").write_text(json.dumps(allowed))
        self.environment = {
            "PATH": os.environ["PATH"],
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "ANTHROPIC_BASE_URL": model_url,
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "HANDRAIL_TOKEN": token,
            "NO_PROXY": "127.0.0.1",
        }
        self._started: list[subprocess.Popen] = []
        if self.as_root:
            for path in [self.root, *self.root.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)

    def close(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.root, ignore_errors=True)
        self._folder.cleanup()

    def start(self, prompt: str, *, mode: str = "default", session: str | None = None, resume: str | None = None):
        """Start `claude -p PROMPT`; a Popen whose standard output is Claude Code's stream of JSON lines."""
        which = ["--resume", resume] if resume else ["--session-id", session or str(uuid.uuid4())]
        return self._start("-p", prompt, *which, mode=mode)

    def start_for_a_program(self, prompt: str, *, mode: str, session: str):
        """Start Claude Code as an editor does: it asks for permissions in JSON lines, and reads answers."""
        words = ["--session-id", session, "--input-format", "stream-json", "--permission-prompt-tool", "stdio"]
        process = self._start("-p", *words, mode=mode, stdin=subprocess.PIPE)
        message = {"type": "user", "message": {"role": "user", "content": prompt}}
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        return process

    def _start(self, *words: str, mode: str, stdin=subprocess.DEVNULL):
        permission = ["--dangerously-skip-permissions"] if mode == "bypassPermissions" else ["--permission-mode", mode]
        process = subprocess.Popen(
            [self.claude, *words, *permission, "--output-format", "stream-json", "--verbose"],
            cwd=self.folder,
            env=self.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **({"user": NOBODY, "group": NOBODY, "extra_groups": []} if self.as_root else {}),
        )
        self._started.append(process)
        return process

    def finish(self, process: subprocess.Popen, *, within: float = 60) -> list[dict]:
        """Wait for its end; the JSON lines it has printed."""
        try:
            out, err = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"Claude Code did not end within {within} s:\n{out[-3000:]}\n{err[-3000:]}") from None
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        assert lines, f"Claude Code ended with {process.returncode} and said nothing:\n{err[-3000:]}"
        assert lines[-1]["type"] == "result", lines[-1]
        return lines

    def run(self, prompt: str, **options) -> list[dict]:
        return self.finish(self.start(prompt, **options))

    @property
    def ran(self) -> list[str]:
        """What deploy.sh was run with, in order."""
        file = self.folder / "ran"
        return file.read_text().split() if file.exists() else []
