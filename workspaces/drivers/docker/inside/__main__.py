"""The programs of a container in gVisor, in one archive: `keep` is its first process."""

import sys

if __name__ == "__main__":
    if sys.argv[1] == "relay":
        from relay import main
    elif sys.argv[1] == "canary":
        from canary import main
    else:
        from keeper import main
    main(*sys.argv[2:])
