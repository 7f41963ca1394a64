"""National identifiers, a file a country: the file name is the word a plan names in `find.countries`."""
