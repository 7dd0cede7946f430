"""Every setting, read from the environment once. A wrong value fails loudly, here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.csp import CSP
from psycopg.conninfo import conninfo_to_dict

from sandboxes import times

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(os.environ.get("AGENTBOX_VAR", BASE_DIR / "var"))


def secret(name: str, file: Path) -> str:
    """The variable `name`, or the content of the file that `manage.py up` made."""
    if value := os.environ.get(name):
        return value
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"Set {name}, or run `manage.py up` once so that it makes {file}.") from error


def flag(name: str, default: str = "0") -> bool:
    value = os.environ.get(name, default).lower()
    if value not in {"0", "1", "true", "false"}:
        raise ImproperlyConfigured(f"{name} must be 0 or 1, not {value!r}.")
    return value in {"1", "true"}


PREPARED = {"server_side_binding": True, "prepare_threshold": 2}
"""The same few statements run all day, and planning them anew took a third of PostgreSQL's time."""


def database(url: str) -> dict[str, Any]:
    """Django's form of a libpq URL: postgresql://user:password@host:5432/name, or with ?host=/socket/folder."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise ImproperlyConfigured("DATABASE_URL must be a postgresql:// URL: PostgreSQL is the only database.")
    parts = conninfo_to_dict(url)
    known = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 5, **PREPARED} | {name: parts[name] for name in parts if name not in known},
        **{name: str(parts[key]) for key, name in known.items() if key in parts},
    }


SECRET_KEY = secret("SECRET_KEY", VAR_DIR / "secret_key")
DEBUG = flag("DEBUG")
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [origin for origin in os.environ.get("CSRF_TRUSTED_ORIGINS", "").split(",") if origin]
SECURE_COOKIES = flag("SECURE_COOKIES")

DATABASE_URL = os.environ.get("DATABASE_URL", f"postgresql://postgres@/agentbox?host={VAR_DIR / 'postgresql'}")
REDIS_URL = os.environ.get("REDIS_URL", f"unix://{VAR_DIR / 'valkey' / 'valkey.sock'}?db=0")
DATABASES = {"default": database(DATABASE_URL)}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"socket_timeout": 1, "socket_connect_timeout": 1},
    }
}

INSTALLED_APPS = [
    "console",
    "pools",
    "sandboxes",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "django_htmx",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "console.errors.Refusals",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csp",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
AUTH_USER_MODEL = "pools.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CSRF_FAILURE_VIEW = "console.errors.csrf_failure"
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign-in"
AUTH_PASSWORD_VALIDATORS = [{"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"}]

LANGUAGE_CODE = "en"
LOCALE_PATHS = [BASE_DIR / "console" / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True  # straight from the tree and the packages: nothing to collect, nothing to go stale
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

SECURE_CSP = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.SELF, CSP.NONCE],
    "style-src": [CSP.SELF, CSP.NONCE],
    "img-src": [CSP.SELF, "data:"],
    "font-src": [CSP.SELF],
    "connect-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "frame-ancestors": [CSP.NONE],
    "base-uri": [CSP.NONE],
}
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
SESSION_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

# The live feed, in seconds (design section 4, Live feed).
LIVE_FLUSH = float(os.environ.get("LIVE_FLUSH", "0.25"))
LIVE_BEAT = float(os.environ.get("LIVE_BEAT", "15"))
LIVE_RECHECK = float(os.environ.get("LIVE_RECHECK", "30"))
LIVE_SEND_LIMIT = float(os.environ.get("LIVE_SEND_LIMIT", "10"))

REST_FRAMEWORK = {
    "EXCEPTION_HANDLER": "console.rest.problems.answer",
    "DEFAULT_AUTHENTICATION_CLASSES": ["console.rest.auth.ByKey", "console.rest.auth.BySession"],
    "DEFAULT_PERMISSION_CLASSES": ["console.rest.auth.Known"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {"TITLE": "AgentBox", "VERSION": "1", "SERVE_INCLUDE_SCHEMA": False}

# Celery: passes are the correctness, messages only the speed, so a lost or late message is harmless (design section 4).
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://").replace("?db=", "?virtual_host=")
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": times.BROKER_VISIBILITY, "socket_timeout": 5}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_DB_REUSE_MAX = 10_000
"""By default Celery makes a new connection for every task, which costs more than most of our passes."""
CELERY_TASK_SOFT_TIME_LIMIT = times.SOFT_LIMIT
CELERY_TASK_TIME_LIMIT = times.HARD_LIMIT
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "sandboxes.sweep", "schedule": 1.0, "options": {"expires": 1.0}},
    "collect": {"task": "sandboxes.collect", "schedule": 1.0, "options": {"expires": 2.0}},
    "housekeeping": {"task": "sandboxes.housekeeping", "schedule": 60.0, "options": {"expires": 60.0}},
}

# How the outside reaches us, and how we reach sandboxes.
EDGE_URL = os.environ.get("AGENTBOX_EDGE_URL", "http://localhost:8001")
"""Where trainers find the E2B API, and the gateway by headers."""
SANDBOX_DOMAIN = os.environ.get("AGENTBOX_SANDBOX_DOMAIN", "localhost:8001")
"""Sandboxes answer at <port>-<sandboxID>.<this>; may carry a port."""
POD_NAMESPACE = os.environ.get("AGENTBOX_NAMESPACE", "agentbox")
ENVD_PORT = 49983
ENVD_COMMAND = os.environ.get("AGENTBOX_ENVD_COMMAND", "/opt/agentbox/bin/envd").split()
ENVD_IMAGE = os.environ.get("AGENTBOX_ENVD_IMAGE", "")
"""Whence an init container brings envd into each Pod; empty where the images have it already, as on localkube."""
ENVD_INSTALL_COMMAND = os.environ.get("AGENTBOX_ENVD_INSTALL_COMMAND", "/opt/agentbox/bin/envd install /target").split()
"""Run in that image: it copies envd to /target, where sandboxes find it at /opt/agentbox."""
RUNTIME_CLASS = os.environ.get("AGENTBOX_RUNTIME_CLASS", "")
"""For every sandbox, whatever its env says; empty leaves it to the env."""

LOGGING_CONFIG = "console.logging.configure"
LOGGING: dict[str, Any] = {"level": os.environ.get("LOG_LEVEL", "INFO")}
