"""What detectors put out, one file a family: how it is recognised, and how it becomes boxes, in numpy and in a graph."""
