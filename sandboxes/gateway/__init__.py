"""The data plane's way in: `<port>-<sandboxID>.<domain>` to the daemon inside that sandbox, and nowhere else."""
