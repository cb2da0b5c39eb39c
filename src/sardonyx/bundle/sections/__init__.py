"""The parts of the report, one file each: `part(story)` gives a section of the page, or nothing."""
