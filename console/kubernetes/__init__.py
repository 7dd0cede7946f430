"""`manage.py kubernetes`: a real Kubernetes of one node on this machine, from pinned parts, for development and tests.

Imports no Django model. Everything lies in one state folder; what is outside of it (a bridge, cgroups, kernel settings)
is named here and undone by `cleanup`, so a clean stop, `down` and the start after a kill -9 leave the same: nothing.
"""
