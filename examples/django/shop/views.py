"""The page that takes orders."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from shop.models import Order
from shop.tasks import send_receipt


@require_POST
def add_order(request: HttpRequest) -> JsonResponse:
    """Take an order. Its job is there when the order is: a worker may be faster than a commit."""
    with transaction.atomic():
        order = Order.objects.create(email=request.POST["email"])
        send_receipt.enqueue(order.pk)
    return JsonResponse({"order": order.pk}, status=201)
