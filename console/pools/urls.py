from __future__ import annotations

from django.urls import path

from . import pages

urlpatterns = [
    path("pools/", pages.pools, name="pools"),
    path("pools/<int:pool_id>/", pages.pool, name="pool"),
]
