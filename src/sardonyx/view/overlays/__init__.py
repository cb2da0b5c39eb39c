"""One file per overlay: `overlay(subject)` gives its values, and says by `REQUIRES` which extra it needs, if any."""
