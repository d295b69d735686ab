"""Speed, measured against what a user would otherwise pick; run with ``make bench``."""
