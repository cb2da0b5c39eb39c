"""Reverse-mode differentiation from graph to graph: `sardonyx.gradient.engine.differentiate`."""
