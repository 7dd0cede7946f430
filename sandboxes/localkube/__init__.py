"""A single-machine Kubernetes API: real Pods as process trees, simulated Pods as statuses. Imports nothing of the rest."""
