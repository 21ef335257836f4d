"""Programs that build, install or run a whole folder: what they do with a project that came from the network."""

import itertools
import posixpath
import re

from .run_files import IMPLIED, PACKAGE_JSON
from .shell_words import OPAQUE, names

CONTAINERS = names("docker podman nerdctl buildah docker-compose podman-compose")
BUILDERS = (
    CONTAINERS
    | PACKAGE_JSON
    | frozenset(IMPLIED)
    | names(
        """
        go ninja ctest buck buck2 pants please plz xmake qmake premake5 autoreconf autogen.sh bjam waf conan vcpkg
        west pio platformio idf.py sbt lein clojure mill bazel bazelisk rebar3 mix dotnet msbuild nuget swift
        xcodebuild stack cabal opam dune zig nimble crystal shards flutter dart elm pytest py.test pdm hatch pipenv
        rye pixi conda mamba uvx pipx ansible-playbook ansible terraform tofu terragrunt packer pulumi cdk sam
        serverless sls skaffold tilt helm helmfile nix nix-build nix-shell nix-env nixos-rebuild devbox devenv
        direnv mise asdf nx turbo lerna rush moon jest vitest mocha ava karma cypress playwright webpack vite rollup
        esbuild parcel next nuxt astro ng ember gatsby hugo jekyll mkdocs sphinx-build rspec phpunit bundler gem
        cpanm debuild dpkg-buildpackage rpmbuild makepkg snapcraft flatpak-builder brew hardhat truffle forge anchor
        expo electron deno lefthook husky act
        """
    )
)
# What only tells of a project, or leaves it alone.
ASKS = names(
    """
    --version -V --help -h help version ls list ll la view info show outdated why tree metadata search ping whoami
    doctor explain root prefix fund freeze logs ps images inspect pull push login logout tag stats fmt --list
    """
)
CONTAINER_BUILDS = names("build up run create start bake bud watch")
IMAGE_BUILDS = names("build bake bud compose up")
MODULES = names("json.tool venv virtualenv http.server zipfile tarfile timeit ensurepip calendar this pydoc")
FILE_OPTIONS = names("-f --file -r --requirement --requirements -c --config --env-file -e --editable")
# A folder of the network that a container program builds: an address, or a repository's short name.
CONTEXT = re.compile(r"(?:https?|git|ssh)://\S+|git@\S+|github\.com/\S+")


def runs_project(name, texts):
    """Return True if a program runs the code of the project in its folder, or what the project's files tell it to."""
    operands = [text for text in texts if not text.startswith("-")]
    if name.startswith("python"):
        module = next((after for flag, after in itertools.pairwise(texts) if flag == "-m"), "")
        return module not in MODULES and bool(module)
    if name not in BUILDERS:
        return False
    if name in CONTAINERS:
        return not CONTAINER_BUILDS.isdisjoint(operands[:3]) and operands[:1] != ["run"]
    return not texts or not (ASKS & {texts[0], *operands[:1]})


def built_address(name, texts):
    """Return the address that an image is built from; "" if it is a folder of this machine."""
    operands = [text for text in texts if not text.startswith("-")]
    if name not in CONTAINERS or IMAGE_BUILDS.isdisjoint(operands[:2]):
        return ""
    return next((text for text in texts if CONTEXT.fullmatch(text.partition("=")[2] or text)), "")


def named_places(texts):
    """Yield each text that may be the name of a folder or file among the words of such a program."""
    for text in texts:
        yield from (each for each in (text, text.partition("=")[2], text[2:] if text[:1] == "-" else "") if each)


def named_files(words):
    """Return the words that an option names as a file that the program follows, such as `-f compose.yaml`."""
    return [word for flag, word in itertools.pairwise(words) if flag.text in FILE_OPTIONS]


def implied_files(name, folders):
    """Yield the paths of the files that the program reads in its folder by default."""
    implied = [*IMPLIED.get(name, "").split(), *(["package.json"] if name in PACKAGE_JSON else [])]
    implied += ["conftest.py"] if name in ("pytest", "py.test", "tox", "nox") else []
    return (posixpath.join(folder, file) for folder in folders if OPAQUE not in folder for file in implied)
