"""Curves, tables and one-page HTML reports. The only package that uses matplotlib."""
