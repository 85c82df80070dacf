"""python -m npinfer: the command line."""

from npinfer.cli import main

raise SystemExit(main())
