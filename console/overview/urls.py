from __future__ import annotations

from django.urls import path

from . import pages

urlpatterns = [
    path("", pages.overview, name="overview"),
    path("find", pages.find, name="find"),
]
