"""What the words of an envelope stand for: folders of programs, of caches, and devices."""


def _paths(text):
    return tuple(text.split())


# Of the root. Nothing of /home, /root, /run, /mnt and /srv.
TOOLCHAINS = _paths(
    "/bin /sbin /usr /lib /lib32 /lib64 /libx32 /etc /opt /nix /go /gnu /snap /sys /proc /var/lib /.handrail/native"
)
# Of the home: programs, and the settings that programs need and that hold no credentials.
HOME_TOOLCHAINS = _paths(
    ".local/bin .local/lib .local/share/mise .local/share/uv .local/share/fnm .local/share/pnpm .local/pipx .cargo/bin "
    ".cargo/env .cargo/config.toml .rustup .nvm .pyenv .rbenv .asdf .sdkman .volta .bun .deno go .npm-global .jenv "
    ".gitconfig .config/git .config/pip .config/go .config/mise .bashrc .bash_profile .profile .zshrc .zshenv .inputrc "
    ".tool-versions"
)
# Of the home: what known tools fetch or compute and can do again.
CACHES = _paths(
    ".cache .npm .pnpm-store .local/share/pnpm/store .yarn/berry .cargo/registry .cargo/git go/pkg .m2/repository "
    ".gradle/caches .gradle/wrapper .gradle/daemon .nuget/packages .bun/install/cache .gem .bundle/cache .ivy2/cache "
    ".cabal/packages .hex .pub-cache .composer/cache .ccache .local/state"
)
# The caches made where they are missing: a rule can only name what is there.
MADE_CACHES = _paths(".cache .npm .cargo/registry .cargo/git go/pkg .local/state")
DEVICES = _paths("/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/ptmx")
# Where the egress proxy and the desk's own address are reached in a workspace.
EGRESS_PORTS = (3128, 80)
# Variables that make known tools write to scratch what they would write to the top of the home: nyc its wrappers.
MOVED_TO_SCRATCH = {"SPAWN_WRAP_SHIM_ROOT": "/tmp"}
