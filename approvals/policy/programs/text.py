"""sed, awk and jq: programs with a language of their own, of which the harmless part is known."""

import re

from .. import effects
from .grammar import parse_table, read_arguments
from .registry import by_grammar, handles, kind

OPTIONS = parse_table(
    """
    sed : -n -E -r -s -u -z -e=sed -i=text? --expression=sed --quiet --silent --regexp-extended --posix --separate
        --null-data --in-place=text? --debug --line-length=num --unbuffered --sandbox : sed? edited*
    awk : -F=text -v=assign --posix --re-interval --csv : awk in*
    jq : -n -r -R -j -a -c -s -S -e -M -C --raw-output --compact-output --slurp --raw-input --null-input --sort-keys
        --exit-status --join-output --ascii-output --color-output --monochrome-output --tab --indent=num
        --arg=pair --argjson=pair : jq in*
    """,
    "reads",
)
SED_ADDRESS = re.compile(r"\d+(?:~\d+)?|\$|/(?:\\.|[^/\\\n])*/[IM]*")
SED_PLAIN = "pPdDqQ=nNgGhHxzlF"


@handles("sed")
def sed(name, words, simple, judge):
    grammar = OPTIONS["sed"]
    scripted = any(re.match(r"-[nErsuz]*e|--expression", w.text) for w in words)
    arguments, problems = read_arguments(grammar, words)
    edits = [a for a in arguments if a.option in ("-i", "--in-place")] or any(_in_place(w.text) for w in words)
    found = [effects.unknown(says) for says, word in problems]
    operands = [a.word for a in arguments if not a.option]
    scripts = [a.word for a in arguments if a.kind == "sed" and a.option]
    if not scripted and operands:
        scripts, operands = [operands[0]], operands[1:]
    for script in scripts:
        problem = (
            "is not known before it runs"
            if not script.literal and not _quoted_glob(script)
            else sed_problem(script.text)
        )
        if problem:
            found.append(effects.unknown(f"has a script that {problem}"))
    for argument in arguments:
        if argument.option in ("-i", "--in-place") and re.search(r"[/*]", argument.word.text):
            found.append(effects.unknown("keeps copies under a path of its own"))
    for operand in operands:
        found += judge.writes(operand) if edits else judge.reads(operand)
    return found


def _in_place(text):
    return text.startswith("--in-place") or re.match(r"-[nErsuz]*i", text) is not None


def _quoted_glob(word):
    return word.glob and not word.opaque and not word.pipe


def sed_problem(script):
    """Return what is not harmless in a sed script, or None; only forms that are fully understood pass."""
    rest = script
    for _ in range(500):
        rest = rest.lstrip(" \t\n;")
        if not rest:
            return None
        for _ in range(2):
            match = SED_ADDRESS.match(rest)
            if match:
                rest = rest[match.end() :].lstrip(" ")
            rest = re.sub(r"^,\s*[+~]?", "", rest, count=1) if match else rest
        rest = re.sub(r"^[+~]?\d+", "", rest).lstrip(" !")
        if not rest:
            return "cannot be read"
        command, rest = rest[0], rest[1:]
        if command in "{}":
            continue
        if command in SED_PLAIN:
            match = re.match(r"\s*\d*\s*(?=$|[;}\n])", rest)
        elif command in "sy":
            match = _substitution(rest)
        elif command in "bt:T":
            match = re.match(r"\s*[A-Za-z0-9_]*\s*(?=$|[;}\n])", rest)
        elif command in "aic":
            match = re.match(r"\\?[^\n]*(?:(?<=\\)\n[^\n]*)*(?=$|\n)", rest)
        else:
            return f"uses the command {command}, which can run or write something"
        if not match:
            return f"uses {command} in a way that is not known to be harmless"
        rest = rest[match.end() :]
    return "is too long"


def _substitution(rest):
    if not rest or rest[0] in "\\\n" or rest[0].isalnum():
        return None
    mark = re.escape(rest[0])
    part = (
        rf"(?:\\.|\[(?:\^?\]?)[^\]\n]*\]|[^\\{mark}\n]|\\\n)*?" if rest[0] not in "[]" else rf"(?:\\.|[^\\{mark}\n])*?"
    )
    plain = rf"(?:\\.|\\\n|[^\\{mark}\n])*"
    # A bracket may hold the mark; where the two readings differ, the match below fails and the script waits.
    first = re.match(rf"{mark}{plain}{mark}{plain}{mark}([gpiIm0-9]*)\s*(?=$|[;}}\n])", rest)
    second = re.match(rf"{mark}{part}{mark}{plain}{mark}([gpiIm0-9]*)\s*(?=$|[;}}\n])", rest)
    return first if first and second and first.end() == second.end() else None


@handles("awk", "gawk", "mawk")
def awk(name, words, simple, judge):
    return by_grammar(OPTIONS["awk"], name, words, simple, judge)


@kind("assign")
def assign(word, name, judge):
    return [] if re.match(r"[A-Za-z_]\w*=", word.text) else [effects.unknown("assigns what is not a variable")]


@kind("awk")
def awk_program(word, name, judge):
    if word.opaque or word.splits:
        return [effects.unknown("has a program that is not known before it runs")]
    problem = awk_problem(word.text)
    return [effects.unknown(f"has a program that {problem}")] if problem else []


AWK_TOKEN = re.compile(
    r'\s+|#[^\n]*|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d+\.?\d*|\+\+|--|\|\||&&|>>|[<>=!]=|.|\n', re.DOTALL
)
AWK_BANNED = {"system", "getline", "close", "fflush", "ENVIRON", "PROCINFO", "ARGV", "ARGC", "SYMTAB", "FUNCTAB"}
# A slash inside brackets ends the pattern in some awks and not in others, so it does not fit here.
AWK_REGEX = re.compile(r"/(?:\\.|\[(?:\^?\]?)(?:\\.|[^\]\\\n/])*\]|[^/\\\n\[])+/")


def awk_problem(program):
    """Return what in an awk program writes, runs or leaks, or None."""
    position, before, printing, depth = 0, "", False, 0
    while position < len(program):
        if program[position] == "/" and not _operand(before):
            if before in ("++", "--"):
                return "cannot be read with certainty"
            match = AWK_REGEX.match(program, position)
            if not match:
                return "holds a pattern that cannot be read"
            position, before = match.end(), "0"
            continue
        match = AWK_TOKEN.match(program, position)
        token, position = match.group(), match.end()
        if (token.isspace() and "\n" not in token) or token.startswith("#"):
            continue
        if token in AWK_BANNED or token in ("@", "|", '"', "\\"):
            return f"uses {token}, which can run something or reach outside"
        depth += (token in "([") - (token in ")]") if len(token) == 1 else 0
        if token in ("print", "printf"):
            printing, depth = True, 0
        elif token in (";", "}", "{") or ("\n" in token and before != ","):
            printing = False
        elif token in (">", ">>") and printing and depth <= 0:
            return "writes a file"
        before = token
    return None


def _operand(token):
    if token in ("print", "printf", "return", "in", "case", "if", "while", "else", "do"):
        return False
    return token in (")", "]", "$") or bool(re.match(r'[A-Za-z_0-9."]', token))


@handles("jq")
def jq(name, words, simple, judge):
    return by_grammar(OPTIONS["jq"], name, words, simple, judge)


@kind("jq")
def jq_filter(word, name, judge):
    if word.opaque or word.splits:
        return [effects.unknown("has a filter that is not known before it runs")]
    if re.search(
        r"(?<![.\w\"])env\b|\$ENV|\b(?:import|include|input_filename|modulemeta|get_search_list)\b", word.text
    ):
        return [effects.unknown("has a filter that reads the environment or other files")]
    return []
