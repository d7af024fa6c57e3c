"""Where it answers."""

from django.urls import path

from shop.views import add_order

urlpatterns = [path("orders", add_order)]
