"""The HTML report, the dataset card, their data and charts.

Reads tables of the private folder; writes pages that hold numbers and never a value.
"""
