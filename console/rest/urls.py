from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularJSONAPIView

from . import schema, views

__all__ = ["schema", "urlpatterns"]

urlpatterns = [
    path("auth/whoami", views.whoami),
    path("envs", views.envs),
    path("envs/<str:name>", views.env),
    path("envs/<str:env>/autoscaling/groups/<str:name>", views.group),
    path("pools", views.pools),
    path("sandboxes", views.sandboxes),
    path("sandboxes/<str:sandbox_id>", views.sandbox),
    path("quotas", views.quotas),
    path("openapi.json", SpectacularJSONAPIView.as_view(authentication_classes=[], permission_classes=[])),
    path("<path:rest>", views.nothing),
]
