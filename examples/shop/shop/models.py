"""What the shop remembers."""

from django.db import models


class Order(models.Model):
    """An order, the task that sends its receipt, and whether that was sent."""

    email = models.EmailField()
    made_at = models.DateTimeField(auto_now_add=True)
    task = models.CharField(max_length=32, editable=False)
    receipt_sent = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.email}"
