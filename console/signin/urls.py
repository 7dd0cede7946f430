from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from .pages import SignIn

urlpatterns = [
    path("sign-in", SignIn.as_view(), name="sign-in"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
]
