"""Environment variables: which ones programs obey as if they were options, and which values of them are harmless."""

import re

from .impacts import unclear
from .programs.tables import BUILDS
from .shell_words import names
from .verdict import Effect

SAFE_VARIABLES = names("NODE_ENV LANG TZ NO_COLOR CI LC_ALL FORCE_COLOR PYTHONUNBUFFERED RUST_BACKTRACE")
# Values that no program obeys in a harmful way.
HARMLESS_VALUES = {
    "GOOS": r"[a-z0-9]+",
    "GOARCH": r"[a-z0-9]+",
    "CGO_ENABLED": r"[01]",
    "GIT_TERMINAL_PROMPT": r"[01]",
    "GIT_OPTIONAL_LOCKS": r"[01]",
    "PAGER": r"cat",
    "GIT_PAGER": r"cat",
    "GH_PAGER": r"cat",
    "MANPAGER": r"cat",
    "GIT_EDITOR": r"true|:",
    "GIT_SEQUENCE_EDITOR": r"true|:",
    "PYTHONDONTWRITEBYTECODE": r"[01]",
    "PYTHONHASHSEED": r"\d+",
    "CARGO_TERM_COLOR": r"[a-z]+",
    "CLICOLOR": r"[01]",
}
# A program, language or library reads every variable that begins so.
FAMILIES = """
    LD DYLD MALLOC GLIBC GCONV LOCPATH NLSPATH TERM TZDIR RES_ RESOLV HOST GETCONF
    GIT SSH GPG GNUPG SUDO XDG DBUS DISPLAY WAYLAND HG SVN CVS RSYNC P4
    BASH ZDOTDIR PROMPT_COMMAND SHELL
    TAR TAPE ZIP UNZIP GZIP XZ ZSTD BZIP LZ GREP RIPGREP RG_ ACK AG_ FD_ FZF JQ AWK GAWK MAWK LESS MAN INFO MORE LV BAT
    SQLITE PG PSQL MYSQL REDIS MONGO CURL WGET HTTP FTP NETRC OPENSSL SSL REQUESTS NODE_EXTRA
    AWS GOOGLE GCLOUD CLOUDSDK AZURE ARM_ KUBE HELM DOCKER COMPOSE BUILDKIT PODMAN CONTAINER TF_ TERRAFORM ANSIBLE
    VAGRANT GH_ GITHUB GLAB GITLAB
    PYTHON PYTEST PIP UV_ POETRY PIPENV PDM HATCH CONDA VIRTUALENV COVERAGE TOX NOX MYPY RUFF BLACK ISORT PYLINT FLAKE8
    NODE NPM YARN PNPM BUN_ DENO COREPACK NVM VOLTA ESLINT PRETTIER TS_NODE BABEL SWC JEST MOCHA NYC VITEST WEBPACK
    VITE_ ELECTRON PLAYWRIGHT PUPPETEER CYPRESS CHROME FIREFOX
    CARGO RUST GO CGO JAVA _JAVA JDK GRADLE MAVEN MVN ANT_ SBT KOTLIN SCALA CLASSPATH
    RUBY BUNDLE GEM RAKE RAILS SPEC_OPTS MINITEST CUCUMBER PERL HARNESS PROVE PHP COMPOSER LUA TCL R_ JULIA ERL ELIXIR
    MIX REBAR GHC CABAL STACK OCAML OPAM
    DOTNET CORECLR COMPLUS MSBUILD NUGET SWIFT XCODE
    MAKE GNUMAKE MFLAGS CMAKE CTEST NINJA MESON BAZEL SCONS JUST TASK PKG_CONFIG CCACHE DISTCC GCC COLLECT COMPILER
    CLANG C_INCLUDE CPLUS OBJC CPATH LIBRARY DEPENDENCIES_OUTPUT SUNPRO
    QT GTK GDK GIO GST EMACS VIM EXINIT MISE ASDF DIRENV
"""
ENDINGS = """
    PAGER EDITOR VISUAL BROWSER PROXY WRAPPER FLAGS OPT OPTS OPTIONS ARGS PATH HOME SHELL COMMAND CMD RC RCFILE CONFIG
    CONFIG_FILE CONFIG_PATH PRELOAD PLUGIN PLUGINS HOOK HOOKS DIR RSH ASKPASS TOOLCHAIN EXEC EXECUTABLE BIN BINARY
    LOADER PROFILER REGISTRY INDEX_URL STARTUP INIT SCRIPT
"""
ALONE = """
    PATH PWD OLDPWD ENV IFS PS4 HOME CDPATH GLOBIGNORE EXECIGNORE INPUTRC HISTFILE
    VIRTUAL_ENV TMPDIR TMP TEMP PREFIX DESTDIR POSIXLY_CORRECT COMSPEC PATHEXT
    CC CXX CPP AS AR LD FC F77 RM NM STRIP RANLIB OBJCOPY INSTALL LEX YACC TEX CTAGS WEAVE TANGLE
"""
# pattern: recheck takes long; it is a list of words, and a name is a word of a command
OBEYED = re.compile(
    rf"(?:{'|'.join(map(re.escape, FAMILIES.split()))})\w*|(?:\w*_|\w*)(?:{'|'.join(ENDINGS.split())})"
    rf"|{'|'.join(ALONE.split())}"
)
# Programs that run the project's code, which has settings of its own.
OF_PROJECTS = frozenset(BUILDS) | names(
    """
    npm pnpm yarn bun npx bunx node deno python python2 python3 uv poetry pipenv bundle composer cargo go gradle mvn
    gradlew mvnw dotnet rake just task bazel cmake ctest meson swift mix sbt export declare typeset local readonly
    """
)
PLAIN = re.compile(r"[A-Za-z0-9_][\w.,:@%+/-]*|")


def variable_effects(name, value, program):
    """Return the effects of setting a variable (`value`: a Word or None) for a program, or with `export` for all."""
    plain = value is not None and value.literal
    text = value.text if plain else ""
    if name in SAFE_VARIABLES and plain and re.fullmatch(r"(?:[\w@+-][\w.@+-]*(?:/[\w+-]+)?)?", text):
        return []
    says = f"sets {name}, which can change what the program does"
    known = plain and name in HARMLESS_VALUES and re.fullmatch(HARMLESS_VALUES[name], text)
    own = plain and re.fullmatch(r"[A-Z][A-Z0-9_]*", name) and not OBEYED.fullmatch(name) and PLAIN.fullmatch(text)
    if known or (own and program.rsplit("/", 1)[-1] in OF_PROJECTS):
        return [Effect("unclear", says, "medium", "yes")]
    return [unclear(says)]
