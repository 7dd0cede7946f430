"""Routes of the web process."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, include, path

from pools.models import User

from . import health
from .pages import home


def superusers_only(request: HttpRequest) -> bool:
    return isinstance(request.user, User) and request.user.is_active and request.user.is_superuser


admin.site.has_permission = superusers_only  # type: ignore[method-assign]
admin.site.site_header = admin.site.site_title = "AgentBox"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home, name="home"),
    path("", include("console.signin.urls")),
    path("t/<slug:team>/", include("console.overview.urls")),
    path("t/<slug:team>/", include("console.pools.urls")),
    path("t/<slug:team>/", include("console.sandboxes.urls")),
    path("v1/", include("console.rest.urls")),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("admin/", admin.site.urls),
]

handler400 = "console.errors.bad_request"
handler403 = "console.errors.forbidden"
handler404 = "console.errors.not_found"
handler500 = "console.errors.broken"
