"""What the two halves of the edge share: ASGI answers, database threads, notices, small loops."""
