"""`python -m handrail_client`: the `handrail` command line."""

from handrail_client.command_line import main

raise SystemExit(main())
