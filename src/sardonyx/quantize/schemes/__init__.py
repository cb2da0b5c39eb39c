"""One file per scheme: `variants(subject)` gives the ways to quantise by it, `refusal(subject)` why it cannot be tried.

`RANK` orders them: the most promising first, as time may run out.
"""
