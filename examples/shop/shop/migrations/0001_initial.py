"""The table of orders."""

from typing import ClassVar

from django.db import migrations, models
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    """Made by ``python manage.py makemigrations shop``."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[Operation]] = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("email", models.EmailField(max_length=254)),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                ("task", models.CharField(editable=False, max_length=32)),
                ("receipt_sent", models.BooleanField(default=False)),
            ],
        ),
    ]
