"""The orders in Django's admin, each with a link to its job in the console."""

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

import beanpole
from shop.models import Order


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    """The list of orders."""

    list_display = ("id", "email", "made_at", "receipt_sent", "job")

    def has_add_permission(self, _request: HttpRequest) -> bool:
        """Leave orders to the shop, which puts their jobs."""
        return False

    def job(self, order: Order) -> SafeString:
        """Return a link to the view below."""
        return format_html('<a href="{}">job</a>', reverse("job", args=[order.pk]))


@staff_member_required
def find_job(_request: HttpRequest, order_id: int) -> HttpResponse:
    """Lead to the console's page of an order's job, if that is among the first thousand of its state."""
    order = get_object_or_404(Order, pk=order_id)
    with beanpole.Client() as client:
        for state in ("ready", "delayed", "reserved", "buried"):
            for job in client.list_jobs("receipts", state, bodies=1000).jobs:
                if order.task.encode() in job.body:  # its id in Django, which the body has
                    return redirect(f"{settings.CONSOLE_URL}/jobs/{job.id}")
    return HttpResponse(f"{order} has no job: it is done, and so deleted, or not yet put.", content_type="text/plain")
