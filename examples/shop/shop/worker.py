"""The worker of the shop: its tasks, and a report each night.

``beanpole worker shop.worker:worker`` runs it.
"""

import os
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django.setup()  # before the models are imported

from django.core.mail import send_mail
from django.utils import timezone

import beanpole.django
from shop.models import Order

worker = beanpole.django.worker()


@worker.schedule(name="nightly-report", cron="30 2 * * *", zone="Europe/Berlin")
@worker.function("reports")
def nightly_report() -> None:
    """Mail how many orders there were the day before."""
    task = beanpole.current_task()
    fired_at = task and task.scheduled_at  # the time for which the job is, however late it runs
    day = timezone.localdate(fired_at) - timedelta(days=1)
    count = Order.objects.filter(made_at__date=day).count()
    send_mail(f"{count} orders on {day}", "Well done!", "shop@example.org", ["owner@example.org"])
