"""What the shop answers."""

from functools import partial

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from shop.models import Order
from shop.tasks import send_receipt


@require_POST
def add_order(request: HttpRequest) -> JsonResponse:
    """Take an order. Its job is put when the order is in the database: a worker may be faster than a commit."""
    with transaction.atomic():
        order = Order.objects.create(email=request.POST["email"])
        transaction.on_commit(partial(send_receipt.put, order.pk))
    return JsonResponse({"order": order.pk}, status=201)
