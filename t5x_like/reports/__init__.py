"""Numbers for people: curves, tables and one-page reports. The only place for matplotlib."""
