"""As little as Django needs: one application, one SQLite file, mails that are printed."""

import os
from pathlib import Path

SECRET_KEY = os.environ.get("SECRET_KEY", "for this example only")
DEBUG = True
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["shop", "beanpole.django"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).resolve().parent.parent / "shop.sqlite3",
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TASKS = {
    "default": {
        "BACKEND": "beanpole.django.BeanpoleBackend",
        "QUEUES": ["default", "receipts"],
    }
}
EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
USE_TZ = True
