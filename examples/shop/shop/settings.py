"""As little as Django needs: the shop, the admin, one database, mails that are printed."""

import os
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent

SECRET_KEY = os.environ.get("SECRET_KEY", "for this example only")
DEBUG = True
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = [
    "shop",
    "beanpole.django",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
TIME_ZONE = "Europe/Berlin"
USE_TZ = True

if "PGDATABASE" in os.environ:  # PGHOST and its like say to the driver where it is
    DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}}
    HOW = {"inbox": True}
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ.get("SHOP_SQLITE", BASE / "shop.sqlite3"),
            "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
        }
    }
    HOW = {"outbox": True}

TASKS = {
    "default": {
        "BACKEND": "beanpole.django.BeanpoleBackend",
        "QUEUES": ["default", "receipts"],
        "OPTIONS": HOW,  # the server is that of BEANPOLE_URL
    }
}
CONSOLE_URL = os.environ.get("CONSOLE_URL", "http://127.0.0.1:11380")
