"""Tool calls made to take long, each below 64 KiB: known shapes, and random growth from pieces that multiply."""

import random

SIZE = 64 * 1024 - 200
COMMAND = 9_900  # a longer command is not taken apart at all
FILL = COMMAND - 100
RULES = [
    "Bash(a*b*c*d*e*f*g*h*i*j*k)",
    "Edit(**/a*/**/b*/**/c*/**/d*.py)",
    "mcp__db__query(sql:SELECT *)",
    "mcp__db__find(q:*a*b*c*d*e*)",
    "mcp__fs__open(path:/workspace/*)",
    "Bash(bash -c *x*)",
]
PIECES = [
    "'",
    '"',
    "$(",
    ")",
    "`",
    "|",
    "&&",
    ";",
    "<",
    ">",
    "${x:-",
    "}",
    "{",
    "{a,b}",
    "{1..9}",
    "#",
    "\\",
    "\n",
    "[",
    "]",
    "[]",
    "[^]",
    "/",
    "s/[]a][]b]/x/;",
    "xargs head|",
    "xargs -0 ",
    "x=$x$x;",
    "for i in 1 2 3;do ",
    ";done",
    "while :;do ",
    "case x in x) ",
    ";; esac",
    "cd a/..;",
    "bash -c ",
    "eval ",
    "find . -exec ",
    "awk ",
    "sed ",
    "jq ",
    "sqlite3 a ",
    "a~1/",
    "\u0301\u0315",
    "\ufdfa",
    "*",
    "?",
    "[a-",
    "git -c ",
    "env ",
    "timeout 1 ",
    "((",
    "))",
    "[[ -n x && ",
    "]]",
    "@",
]


def calls():
    """Yield (name, tool, arguments) of the known shapes."""
    for name, command in commands().items():
        yield name, "Bash", {"command": command[:SIZE]}
    for name, text in texts().items():
        yield f"{name}, written", "Write", {"file_path": "a.py", "content": text}
        yield f"{name}, as a path", "Edit", {"file_path": text[:4096], "old_string": text, "new_string": "x"}
        yield f"{name}, searched", "Grep", {"pattern": "x", "glob": text}
        yield f"{name}, fetched", "WebFetch", {"url": f"https://{text}"}
        yield f"{name}, asked", "mcp__db__query", {"sql": f"SELECT {text}"}
        yield f"{name}, found", "mcp__db__find", {"q": text}
        yield f"{name}, opened", "mcp__fs__open", {"path": f"/workspace/{text[:4000]}"}
        yield f"{name}, in many paths", "mcp__fs__open", {f"p{i}": f"./{text[:500]}" for i in range(120)}
    nested = "x"
    for _ in range(400):
        nested = [nested]
    yield "nested lists", "mcp__a__b", {"x": nested}
    yield "many values", "mcp__a__b", {"x": [[]] * 20_000}


def commands():
    """Return {name: command} of the known shapes."""
    return _words() | _scripts() | _nested() | _programs() | _downloads()


def _words():
    # Words, braces, paths and names.
    return {
        "braces": "echo " + "{a,b}" * 1_900,
        "braces in words": "echo " + "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} " * (FILL // 31),
        "open braces": "echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}" + "{" * 98 + "x" * (FILL - 150),
        "words": "ls " + "a " * 1_990,
        "long": "x" * SIZE,
        "path": "cat " + "a/../" * 1_900,
        "short names": "cat " + "a~1/" * 1_000,
        "marks": "cat " + "a" + "\u0315\u0301" * 4_000,
        "ligatures": "cat " + "\ufdfa/" * 2_000,
        "wildcards": "ls " + "*a?b[c]" * 1_300,
        "wildcard words": "ls " + "*a*b*c*d " * 1_000,
        "redirects": "ls " + ">a " * 1_900,
        "here": "cat <<E\n" + "$a " * 1_900 + "\nE",
        "assignments": " ".join(f"A{i}=b" for i in range(1_000)) + " ls",
        "git": "git log " + "a..b:c:d:e " * 800,
        "colons": "git show " + "a:" * 4_500,
        "tar": "tar " + "-C a " * 1_900,
    }


def _scripts():
    # Scripts of other languages within a command.
    return {
        "awk": "awk '" + "/a/" * 3_000 + "' f",
        "awk brackets": "awk '/" + "[]a]" * (FILL // 4) + "' f",
        "sed": "sed '" + "s/a/[/;" * 1_300 + "' f",
        "sed brackets": "sed 's/" + "[]a]" * (FILL // 4) + "' f",
        "sed, 85 characters": "sed 's/" + "[]a]" * 18 + "' f",
        "sed, unclosed": "sed 's/" + "[a" * (FILL // 2) + "/b/' f",
        "sed addresses": "sed '" + "/a/,+5p;" * (FILL // 8) + "' f",
        "sql": "sqlite3 a.db 'select " + "(" * 9_000 + "'",
        "sql brackets": 'sqlite3 a.db "select ' + "[" * 9_000 + '"',
        "jq": "jq '" + ".a | " * 1_700 + ".' f",
    }


def _nested():
    # Commands within commands.
    return {
        "brackets": "(" * 4_900 + "ls" + ")" * 4_900,
        "substitutions": "echo " + "$(" * 99 + "ls" + ")" * 99,
        "parameters": "echo " + "${a:-" * 99 + "}" * 99,
        "arithmetic": "echo $((" + "1+" * 3_000 + "1))",
        "loops": "".join(f"for {c} in 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0; do " for c in "abcdefgh")
        + "case x in x) ;; esac"
        + "; done" * 8,
        "while": "while x=a; do " * 40 + "case x in x) ;; esac" + "; done" * 40,
        "long loop": "for i in 1 2 3 4 5 6 7 8 9; do ls " + "a" * 9_000 + "; done",
        "doubling": "a=xxxxxxxx" + "; a=$a$a" * 500 + "; ls $a",
        "doubled words": "a=xxxxxxxx" + "; a=$a$a" * 9 + "; ls" + " $a" * 300,
        "nested shells": 'bash -c \'eval "bash -c \\"' + "ls;" * 500 + '\\""\'',
        "nested loops in shells": "for i in 1 2 3 4 5 6 7 8; do bash -c 'for j in 1 2 3 4 5 6 7; do ls $j; done'; done",
        "else": "if :; then :; " + "elif :; then :; " * 130 + "fi",
        "case": "case x in " + "a) ls;; " * 190 + "esac",
        "tests": "[[ " + "-n a && " * 250 + "-n b ]]",
        "commands": "ls; " * 199,
        "many commands": "ls;" * 599,
        "pipes": "ls" + " | cat" * 590,
        "cd": "cd " + "a; cd " * 190 + "b; ls " + "c " * 100,
    }


def _programs():
    # Programs that start programs.
    return {
        "xargs": "ls" + "|xargs head" * 590,
        "xargs grep": "ls" + "|xargs -0 grep -l a" * 500,
        "shells": ";".join(f"bash -c l{i}" for i in range(199)),
        "wrappers": "timeout 1 " * 900 + "ls",
        "env": "env " * 2_000 + "ls",
        "sudo": "sudo " * 900 + "ls",
        "find exec": "find . " + "-exec ls {} ; ".replace(";", "\\;") * 600,
    }


def _downloads():
    # Downloads, most of them in text that cannot be read as shell.
    function = "f() { ls; }; "
    return {
        "outputs": function + "curl x > " * 1_090,
        "named outputs": function + "curl -o aaaaaaaa " * 580,
        "shells and substitutions": function + "sh $(" * 1_970,
        "fetchers and shells": function + "curl sh bash " * 760,
        "written script": "cat > a.sh <<'E'\n" + "curl x.example/a -o f\n" * 445 + "E\n",
        "many files": "; ".join(f"curl -o f{i} https://x.example/i" for i in range(195)),
        "many projects": "; ".join(f"git clone https://x.example/a r{i}; make -C r{i}" for i in range(95)),
        "long name of a host": "pip install " + "a" * FILL,
        "sockets": "python3 -c '" + "socket " * 1_400 + "'",
        "backticks": "perl -e '`" + "sh " * 3_200 + "'",
        "aliases": "alias x='ls | cat'; " * 199,
    }


def texts():
    size = SIZE - 64
    return {
        "brackets": "[" * size,
        "brackets and letters": "[]a]" * (size // 4),
        "marks": "\u0315\u0301" * (size // 4),
        "ligatures": "\ufdfa" * (size // 3),
        "slashes": "a/" * (size // 2),
        "up": "../" * (size // 3),
        "letters": "abcdefghij" * (size // 10),
        "quotes": "''" * (size // 2),
        "dollars": "$a" * (size // 2),
        "stars": "*a" * (size // 2),
        "dots": "a." * (size // 2),
        "digits": "9" * size,
        "letters of other scripts": "\u0430\u0431" * (size // 4),
    }


def random_calls(count, seed=0):
    """Yield `count` calls whose commands are grown from pieces; the same seed makes the same calls."""
    chance = random.Random(seed)
    for number in range(count):
        pieces = chance.choices(PIECES, k=chance.randrange(1, 6))
        unit = "".join(piece + chance.choice(["", " ", "a", "1"]) for piece in pieces)
        head = chance.choice(["", "ls ", "sed '", "awk '", "jq '", 'sqlite3 a "', "echo ", "bash -c '", "git log "])
        tail = chance.choice(["", "'", '"', " f", "' f", ";done" * chance.randrange(9)])
        times = chance.choice([3, 20, 100, 1_000, 9_000])
        yield f"random {seed}/{number}", "Bash", {"command": (head + unit * times)[:COMMAND] + tail}
