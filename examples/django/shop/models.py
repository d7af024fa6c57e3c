"""What the shop remembers."""

from django.db import models


class Order(models.Model):
    """An order, and whether its receipt was sent."""

    email = models.EmailField()
    receipt_sent = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.email}"
