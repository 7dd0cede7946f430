from __future__ import annotations

from django.urls import path

from . import pages

urlpatterns = [
    path("sandboxes/", pages.sandboxes, name="sandboxes"),
    path("sandboxes/<slug:sandbox_id>/", pages.sandbox, name="sandbox"),
    path("sandboxes/<slug:sandbox_id>/end", pages.end, name="end"),
]
