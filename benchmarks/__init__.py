"""What is measured: speed (`make bench`) and what the papers compare (`make papers`). A package, so that no other of that name is taken for it."""
