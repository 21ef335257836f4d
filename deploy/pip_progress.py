"""Print what pip prints as the steps of the first `make up`, as each begins. pip's errors go past this, to stderr."""

import re
import sys

packages = tools = 0
for line in iter(sys.stdin.readline, ""):
    if "Installing build dependencies: started" in line and not tools:
        tools = 1
        print("2/4 build tools", flush=True)
    elif line.startswith("Collecting "):
        if not packages:
            print("3/4 packages", flush=True)
        packages += 1
        print("      " + re.split(r"[][<>=!~;\s]", line.split(maxsplit=1)[1])[0], flush=True)
    elif re.search(r"Building editable for handrail .*: started", line):
        print("4/4 front-end files, from npm", flush=True)
    elif line.startswith("Installing collected packages"):
        print(f"      installing {packages} packages", flush=True)
