"""Routes of the live sockets."""

from __future__ import annotations

from django.urls import path

from .socket import LiveSocket

routes = [path("ws/t/<slug:team>/", LiveSocket.as_asgi())]
