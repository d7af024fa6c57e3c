"""The jobs of the shop."""

from collections.abc import Callable

from django.core.mail import send_mail
from django.db import close_old_connections, transaction

from beanpole import Task, Worker
from shop.models import Order

worker = Worker(concurrency=4)  # the server is that of BEANPOLE_URL, or else 127.0.0.1:11300


@worker.middleware
def with_database(_task: Task, call: Callable[[], None]) -> None:
    """Close connections to the database that are old or broken, as Django does around each request."""
    close_old_connections()
    try:
        call()
    finally:
        close_old_connections()


@worker.function("receipts", max_attempts=5, timeout=30)
def send_receipt(order_id: int) -> None:
    """Send the receipt of an order, unless an earlier attempt has done so."""
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=order_id)
        if not order.receipt_sent:
            send_mail(f"Your order {order.pk}", "Thank you!", "shop@example.org", [order.email])
            order.receipt_sent = True
            order.save()
