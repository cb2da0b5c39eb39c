"""One file per target: `runs_on(subject)` answers, `findings(subject)` says what stands in the way or is worth knowing."""
