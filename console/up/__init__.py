"""`manage.py up`: every process of AgentBox on one Linux machine, started, watched and stopped together.

Imports no Django model: it runs before there is a database.
"""
