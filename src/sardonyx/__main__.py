"""`python -m sardonyx` is the `sardonyx` command of that interpreter."""

from sardonyx.cli import main

main()
