"""Beanpole as a backend of Django's tasks: ``TASKS = {"default": {"BACKEND": "beanpole.django.BeanpoleBackend"}}``.

With ``"beanpole.django"`` among the INSTALLED_APPS there is ``manage.py beanpole_worker``, which runs them.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beanpole.django.backend import BeanpoleBackend
    from beanpole.django.running import worker

__all__ = ["BeanpoleBackend", "worker"]


def __getattr__(name: str) -> object:
    """Imports Django when somebody asks for what needs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"{__name__}.{'running' if name == 'worker' else 'backend'}"), name)
    return found
