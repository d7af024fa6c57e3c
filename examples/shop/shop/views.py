"""The page of the shop, and what its button does."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from shop.models import Order
from shop.tasks import send_receipt


def index(request: HttpRequest) -> HttpResponse:
    """Show the form, and the last orders."""
    return render(request, "shop.html", {"orders": Order.objects.order_by("-pk")[:10]})


@require_POST
def add_order(request: HttpRequest) -> HttpResponse:
    """Take an order, and put its job in the same transaction: both are there, or neither."""
    with transaction.atomic():
        order = Order.objects.create(email=request.POST["email"])
        order.task = send_receipt.enqueue(order.pk).id
        order.save()
    return redirect("/")
