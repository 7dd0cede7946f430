"""Signing in and out: Django's own views in our looks, slowed down for who guesses."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from . import tries


class SignInForm(AuthenticationForm):
    error_messages = {
        "invalid_login": _("User name and password do not fit. Both are case-sensitive."),
        "inactive": _("This account is switched off. Ask an admin."),
    }

    def clean(self) -> dict[str, Any]:
        who = tries.key(self.request, str(self.cleaned_data.get("username", "")))
        if tries.too_many(who):
            raise ValidationError(_("Too many tries. Wait a minute, then try again."), code="too_many_tries")
        try:
            cleaned = super().clean()
        except ValidationError:
            tries.note(who)
            raise
        tries.forget(who)
        return cleaned


class SignIn(LoginView):
    template_name = "sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True
