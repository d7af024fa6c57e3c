"""What Django calls this package."""

from importlib import import_module

from django.apps import AppConfig


class BeanpoleConfig(AppConfig):  # type: ignore[misc] # Django has no types
    """The application, with a label that says more than the package's last name."""

    name = "beanpole.django"
    label = "beanpole"

    def ready(self) -> None:
        """Registers the checks, also where no task was imported yet."""
        import_module("beanpole.django.checking")
