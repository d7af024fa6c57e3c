"""What Django calls this package."""

from django.apps import AppConfig


class BeanpoleConfig(AppConfig):  # type: ignore[misc] # Django has no types
    """The application, with a label that says more than the package's last name."""

    name = "beanpole.django"
    label = "beanpole"
