"""A Kubernetes API for one machine: Pods as process trees, or simulated. Imports nothing else of ours."""
