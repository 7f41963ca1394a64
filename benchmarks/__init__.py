"""What is measured: speed (`make bench`) and what the papers compare (`make papers`). A package, lest another be taken for it."""
