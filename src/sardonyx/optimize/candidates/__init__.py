"""One way to a better graph per file; the tournament tries every one that is installed."""
