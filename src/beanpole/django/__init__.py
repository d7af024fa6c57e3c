"""Beanpole as a backend of Django's tasks: ``TASKS = {"default": {"BACKEND": "beanpole.django.BeanpoleBackend"}}``.

With ``"beanpole.django"`` among the INSTALLED_APPS there is ``manage.py beanpole_worker``, which runs them.
"""

from beanpole.django.backend import BeanpoleBackend
from beanpole.django.running import worker

__all__ = ["BeanpoleBackend", "worker"]
