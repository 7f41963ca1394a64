"""The HTML report, the dataset card, their data and charts.

Reads tables of the private folder; writes pages with counts and masked samples, never with a value.
"""
