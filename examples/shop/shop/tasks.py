"""The tasks of the shop, each in a module that views may import."""

from django.core.mail import send_mail
from django.db import transaction

try:
    from django.tasks import task
except ImportError:  # before Django 6
    from django_tasks import task

from shop.models import Order


@task(queue_name="receipts")
def send_receipt(order_id: int) -> None:
    """Send the receipt of an order, unless an earlier attempt has done so."""
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=order_id)
        if not order.receipt_sent:
            send_mail(f"Your order {order.pk}", "Thank you!", "shop@example.org", [order.email])
            order.receipt_sent = True
            order.save()
