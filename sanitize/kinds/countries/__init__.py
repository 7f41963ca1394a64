"""National identifiers, one file per country: the file name is the country code that a plan lists
in `find.countries`."""
