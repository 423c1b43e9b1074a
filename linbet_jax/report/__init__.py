"""The report of a sweep: one HTML page that needs nothing else, the same figures as files, and tables."""
