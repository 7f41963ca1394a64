"""What the records of data sets look like: shapes of chat and instruction data, conversations as
texts, splits, features of `datasets`.

Pure functions on schemas, paths and records, which readers, training and evaluation share. Imports
only `core` and `errors`; opens no file.
"""
