"""Container images made from files, and pushed to a registry, without any tool but Python."""
