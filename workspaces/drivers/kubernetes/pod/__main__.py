"""The programs of a pod, in one archive: `bring` prepares its volumes, `keep` is its first process.

`wait` runs beside it in a pod of a pool, until a Run has got that.
"""

import sys

if __name__ == "__main__":
    if sys.argv[1] == "bring":
        from bring import main
    elif sys.argv[1] == "wait":
        from waiting import main
    elif sys.argv[1] == "canary":
        from canary import main
    elif sys.argv[1] == "listen":
        from canary import listen as main
    else:
        from keeper import main
    main(*sys.argv[2:])
