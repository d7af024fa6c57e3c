"""Where it answers."""

from django.contrib import admin
from django.urls import path

from shop.admin import find_job
from shop.views import add_order, index

urlpatterns = [
    path("", index),
    path("orders", add_order),
    path("orders/<int:order_id>/job", find_job, name="job"),
    path("admin/", admin.site.urls),
]
