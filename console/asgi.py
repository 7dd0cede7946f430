"""The web process: HTTP for Django, WebSockets for Channels."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

http = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - these need Django's apps
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from channels.sessions import SessionMiddlewareStack  # noqa: E402

from .live.urls import routes  # noqa: E402

websocket = AllowedHostsOriginValidator(SessionMiddlewareStack(URLRouter(routes)))
application = ProtocolTypeRouter({"http": http, "websocket": websocket})
