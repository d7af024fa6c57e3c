"""The program that does the jobs: ``beanpole worker shop.worker:worker --processes 2``."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django.setup()  # before the models are imported

from shop.tasks import worker  # noqa: E402 - see above

__all__ = ["worker"]
