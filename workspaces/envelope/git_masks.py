"""Keep git in a held program from taking the notice over a masked file for its content.

Git would find the file changed, and `git add` or `git commit -a` would keep the notice in its place. A clean filter
gives git what its index has instead. A masked file that is not in the index cannot be added.
"""

import os
import re
from contextlib import suppress

from .mount_view import NOTICE

FILE = ".handrail-git-attributes"  # in the program's /tmp
PLAIN = re.compile(r"[^\w.@+-]")
# Only names are matched, so other files of a masked one's name come here too: they are given back as they are.
CLEAN = (
    'f() { t=$(mktemp) && cat >"$t" || return 1; '
    f'if [ "$(wc -c <"$t")" -eq {len(NOTICE)} ] && [ "$(cat "$t")" = "{NOTICE.decode().strip()}" ]; '
    'then git cat-file blob ":$1"; else cat "$t"; fi; s=$?; rm -f "$t"; return $s; }; f %f'
)
SETTINGS = {
    "core.attributesFile": f"/tmp/{FILE}",
    "filter.handrail-masked.clean": CLEAN,
    "filter.handrail-masked.required": "true",
}


def write(scratch, secrets):
    """Write the attributes of these masked paths to where the held program has its /tmp."""
    names = sorted({PLAIN.sub("?", os.path.basename(path)) for path in secrets})
    text = "".join(f"{name} filter=handrail-masked\n" for name in names)
    made = f"{scratch}/{FILE}"
    # Moved into place, because programs can write the folder and could have put a symlink there.
    with suppress(OSError):
        with open(made, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(made, 0o644)
        os.rename(made, f"{scratch}/tmp/{FILE}")


def variables(env):
    """Return variables that add SETTINGS to the git settings that the environment has; names and values are bytes."""
    given = env.get(b"GIT_CONFIG_COUNT", b"")
    first = int(given) if given.isdigit() else 0
    found = {b"GIT_CONFIG_COUNT": b"%d" % (first + len(SETTINGS))}
    for number, (name, value) in enumerate(SETTINGS.items(), first):
        found[b"GIT_CONFIG_KEY_%d" % number], found[b"GIT_CONFIG_VALUE_%d" % number] = name.encode(), value.encode()
    return found
