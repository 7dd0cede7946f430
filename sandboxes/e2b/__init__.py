"""The E2B-compatible control plane: what the unmodified SDK calls (docs: e2b-protocol 2)."""
