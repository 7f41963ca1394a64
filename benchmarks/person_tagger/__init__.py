"""Trains the tagger of people's names (sanitize/text/person_names/name_tagger.bin) from invented
texts and public lists of names. May import sanitize; nothing of sanitize imports it."""
