"""The commands of the day: shell calls as coding agents send them, and programs whose output has awkward shapes.

Written for this benchmark. A file of calls of real sessions (`HANDRAIL_REAL_CALLS`, as for bench.policy) is used
beside them when it is named; such a file is not part of the repository.
"""

import hashlib
import json
import os
import random
import shlex
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1_000_000

CALLS = r"""
ls -la
git status --short
git diff --stat
git log --oneline -5
git add -A && git commit -qm "Mend the parser"
git stash list
git branch -a | head -20
git show HEAD --stat | tail -5
cat README.md | head -40
sed -n '1,40p' README.md
grep -rn "TODO" --include="*.py" . | head -20
find . -name "*.py" -not -path "./.git/*" | head -50
find . -type f -name "*.orig" -delete
wc -l $(git ls-files) | tail -1
python3 -m pytest -q 2>&1 | tail -20
python3 -c "import sys; print(sys.version)"
python3 - <<'PY'
print(sum(range(1000)))
PY
make test 2>&1 | tail -30
make lint
npm test -- --run 2>&1 | tail -40
npm run build && ls dist
pnpm install --frozen-lockfile
pip install -e '.[dev]' -q
cargo build --release 2>&1 | grep -E "^(warning|error)" | head
go build ./... 2>&1
go test ./... -run TestParse -count=1 2>&1 | tail -15
mkdir -p build/tmp && cp README.md build/tmp/
mv build/tmp/README.md build/tmp/old.md && rm -rf build/tmp
rm -rf node_modules dist
chmod +x scripts/run.sh 2>/dev/null; echo done
echo "export DEBUG=1" >> .envrc
printf '%s\n' one two three > lines.txt && sort -r lines.txt
tar -czf build.tgz README.md && tar -tzf build.tgz
curl -s http://127.0.0.1:9/health || echo unreachable
git push origin main
git push --force origin HEAD:feature
git fetch --all --prune
git rebase -i HEAD~2
gh pr create --fill
docker compose up -d
kubectl get pods -A
ps aux | grep python | head -3
kill -0 $$ && echo alive
env | sort | head -5
for f in *.md; do echo "$f: $(wc -l < "$f")"; done
while read -r line; do echo "> $line"; done < README.md
cd /tmp && pwd && cd - >/dev/null
true && false || echo "either"
sleep 1; date +%s
""".strip().split("\n")


def calls(chance: random.Random) -> list[str]:
    """Return the shell calls to choose from, each as one command."""
    found, lines = [], iter(CALLS)
    for line in lines:
        if line.endswith("<<'PY'"):
            line += "\n" + next(lines) + "\n" + next(lines)
        found.append(line)
    if (named := os.environ.get("HANDRAIL_REAL_CALLS")) and Path(named).exists():
        real = [json.loads(line)["command"] for line in Path(named).read_text().splitlines()]
        found += chance.sample(real, min(len(real), 500))
    return found


@dataclass
class Output:
    """A program that prints known bytes: `count` times `piece`."""

    name: str
    piece: bytes
    count: int

    @property
    def size(self) -> int:
        return len(self.piece) * self.count

    @property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for _ in range(self.count):
            digest.update(self.piece)
        return digest.hexdigest()

    @property
    def command(self) -> str:
        code = f"import sys\nfor n in range({self.count}): sys.stdout.buffer.write({self.piece!r})"
        return f"python3 -c {shlex.quote(code)}"


OUTPUTS = [
    Output("nothing", b"", 0),
    Output("one line", b"done\n", 1),
    Output("a long line", b"x" * 1000, 2000),
    Output("binary", bytes(range(256)), 400),
    Output("ANSI", b"\x1b[31mFAILED\x1b[0m tests/test_a.py::\x1b[1mtest_b\x1b[0m\r\n", 300),
    Output("a progress bar", b"\r[#####.....] 50 %\x1b[K\x1b[1A\x1b[2K", 500),
    Output("invalid UTF-8", b"caf\xe9 \xff\xfe \xc3\n \xed\xa0\x80\n", 200),
    Output("many lines", b"src/module.py:12: warning: unused variable `x`\n", 20_000),
    Output("no end of line", b"last", 1),
]
HUGE = Output("60 MB", b"0123456789abcdef" * 1024, 60 * MEGABYTE // (16 * 1024))


def output(chance: random.Random) -> Output:
    return HUGE if chance.random() < 0.02 else chance.choice(OUTPUTS)
