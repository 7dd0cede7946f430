"""`make bench`: what the design promises in figures (section 6), measured on a stack of its own, asserting nothing."""
