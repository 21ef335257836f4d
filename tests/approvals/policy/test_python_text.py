"""Program text for Python runs unasked only if its own words show which files it touches, and that it does no more."""

import json

import pytest

from approvals.policy import Policy, classify

RUNS = [
    "git log --format=%s | python3 -c 'import sys; print(len(sys.stdin.readlines()))'",
    "curl -s localhost:3000/x | python3 -c \"import json,sys; print(json.load(sys.stdin)['a'])\"",
    "python3 - <<'PY'\np='src/app.py'\ns=open(p, encoding='utf8').read()\nopen(p,'w').write(s.replace('a','b'))\nPY",
    "python3 <<PY\nwith open('docs/a.md') as f:\n    print(f.read())\nPY",
    "python3 -c 'import sys; print(open(sys.argv[1]).read())' src/app.py",
    "python3 <<< 'print(open(\"src/app.py\").read())'",
    "f=src/app.py; python3 -c \"print(open('$f').read())\"",
    "python3 - <<'PY'\nfor name in ('a', 'b'):\n    open(f'src/{name}.py', 'a').write('x')\nPY",
    'python3 -c \'import os\nopen(os.path.join("src", "app.py"))\'',
    'timeout 5 python3 -c \'import re; print(re.findall("a", open("src/app.py").read()))\'',
    'python3 -c \'print("{} {:>3}".format(1, open("a")), type(1).__name__)\'',
]
# Each of these could do what its words do not show.
HIDING = r"""
import os; os.system('id')
import subprocess; subprocess.run(['id'])
import socket
import json; json.codecs.open('x')
import re as os; os.system('id')
from os import *
from os.path import os; os.system('id')
import sys; sys.modules['os'].system('id')
import sys; sys.path.insert(0, 'x')
eval('1')
if 0: eval = 1
__builtins__.eval('1')
getattr(1, 'x')
().__class__.__base__.__subclasses__()
'{0.__class__}'.format(1)
print('{:{0.__class__}}'.format(1))
f = '{}'.format; f(1)
f = lambda: 0; f.__globals__
(x for x in [1]).gi_frame.f_builtins
type(open('a', 'rb', 0))('/etc/passwd')
open = print
f = open; f('x')
print(*map(open, ['x']))
def open(x): pass
import functools; functools.partial(open, 'x')
import string; string.Formatter()
import operator; operator.attrgetter('x')
import gzip; gzip.GzipFile('x')
import io; io.FileIO('x')
import yaml; yaml.load('x', yaml.Loader)
import pickle
class A: pass
x = input(); open(x)
x = 'a'; x += 'b'; open(x)
x = 'a'; del x; open(x)
def read(x): return open(x)
[open(p) for p in ['a']]
for p in open('src/list'): open(p)
import sys; sys.argv[1] = '.env'; open(sys.argv[1])
import sys; a = sys.argv; a[1] = '.env'; open(sys.argv[1])
from sys import argv; argv.insert(1, '.env'); open(argv[1])
import sys; open(sys.argv[2])
open(file='src/app.py')
open('src/app.py', **{'mode': 'w'})
open('src/app.py', opener=print)
open(7)
import sys; sys.stdout = open('src/x', 'w')
print(1
"""
ASKS = [
    "python3 -c 'open(\".env\")'",
    "python3 -c 'open(\"../x\")'",
    "python3 -c 'open(\"/etc/shadow\")'",
    'python3 -c \'open(".git/config", "w")\'',
    'python3 -c \'open(".git/config", "r+")\'',
    'python3 -c \'for p in ["src/a", ".env"]: print(open(p).read())\'',
    'python3 -c \'p = "src/a"\nprint(open(p).read())\np = ".env"\'',
    "python3 -c 'import sys; print(open(sys.argv[1]).read())' .env",
    'python3 -c "print($x)"',
    'python3 -c "$(cat src/app.py)"',
    "python3 <<PY\nprint($x)\nPY",
    "python3 <<PY\nprint('\\$x')\nPY",
    "python3 <<-'PY'\n\tprint(open(\"a\"))\n\tPY",
    "python3 <<'A' <<'B'\nprint(open(\"a\"))\nA\nimport os; os.system('id')\nB",
    "python3 <<'A' < src/app.py\nprint(open(\"a\"))\nA",
    "python3 3<<'A'\nprint(open(\"a\"))\nA",
    "python3 0<&3 <<'A'\nprint(open(\"a\"))\nA",
    "python3 -i <<'A'\nprint(open(\"a\"))\nA",
    "python3 -X importtime -c 'print(open(\"a\"))'",
    "python3 -c '# coding: utf-7\nprint(open(\"a\"))'",
    "python -c 'for file in [1]: file(\".env\")'",
    "cd /tmp && python3 -c 'print(open(\"a\"))'",
    "cat src/app.py | python3",
    "PYTHONSTARTUP=x python3 -c 'print(open(\"a\"))'",
    "python3 src/app.py",
    "python3 -c 'print(1)'",
    "echo 1 | python3 -c 'print(1)'",
]


def judged(command, policy=None, **context):
    return classify("Bash", {"command": command}, policy=policy or Policy(), context=context)


@pytest.mark.parametrize("command", RUNS)
def test_text_that_shows_what_it_touches_runs_but_not_as_reading(command):
    assert judged(command).tier == "medium"


@pytest.mark.parametrize("text", HIDING.strip().splitlines())
def test_text_that_could_hide_something_asks(text):
    assert judged(f"python3 - x <<'PY'\nprint(open('src/app.py'))\n{text}\nPY").tier == "high"


@pytest.mark.parametrize("command", ASKS)
def test_text_that_is_not_certain_or_leads_elsewhere_asks(command):
    assert judged(command).tier == "high"


def test_a_link_on_the_way_to_a_file_of_the_text_is_followed():
    command = 'python3 -c \'open("docs/a", "w")\''
    assert [judged(command).tier, judged(command, symlinks={"docs": "/etc"}).tier] == ["medium", "high"]


def test_a_ban_holds_for_files_that_the_text_names():
    policy = Policy.of_rules([])
    policy.mode = "irreversible"
    policy.rules["forbidden"] = Policy.of_rules(["Edit(infra/**)"]).tier("low")
    assert judged('python3 -c \'open("infra/a", "w")\'', policy).tier == "forbidden"


def test_a_rule_with_a_wildcard_does_not_cover_program_text():
    policy = Policy.of_rules(["Bash(python3 -c *)", "Edit(src/**)"])
    assert judged('python3 -c \'open("src/a", "w")\'', policy).tier == "high"


def test_the_card_names_the_files_of_the_text():
    verdict = judged('python3 -c \'open("src/a", "w")\'')
    assert json.dumps(verdict.commands[0]["targets"]) == '["src/a"]'
