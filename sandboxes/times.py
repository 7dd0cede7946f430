"""How long things may take, in seconds. The order of these numbers is the design (section 5) and a test asserts it."""

API_REQUEST = 5.0
"""One request to the Kubernetes API."""
SOFT_LIMIT = 20
"""A Celery task is told to finish."""
HARD_LIMIT = 30
"""A Celery task is killed."""
LEASE = 60
"""How long a lease outlives a holder that vanished without trace."""
NO_RECONCILE_ALERT = 120
"""A group or cluster that no pass has finished for this long is reported."""
BROKER_VISIBILITY = 3600

CLAIM_DEADLINE = 55.0
"""A create answers within this; the SDK gives up at SDK_REQUEST."""
SDK_REQUEST = 60.0
MAX_STARTUP_TIMEOUT = 600.0
"""The longest wait a claim may ask for (metadata `startup-timeout`)."""
ARM_LIMIT = 20.0
"""From bind to delivered; a bound sandbox that nobody delivered by then is ended."""
EDGE_HEARTBEAT = 2.0
EDGE_GONE = 10.0
"""An edge process silent for this long is gone, and so are its callers."""

START_TIMEOUT = 180.0
"""Starting for longer is stuck: above the time a node autoscaler needs to bring a node."""
STOP_TIMEOUT = 90.0
ORPHAN_GRACE = 30.0
"""A Pod without a row, or a row without a Pod, is believed only after this."""
FAILED_WINDOW = 30.0
"""A failed start counts against further growth for this long."""
QUIET_WINDOW = 60.0
"""Surplus idle sandboxes are ended after this long without a claim."""
STALE_SNAPSHOT = 15.0
"""Nobody deletes on a cluster view older than this."""
RECONCILE_EVERY = 10.0
"""A group is due again after this long without any wake."""
