"""``manage.py beanpole_worker``: runs tasks until SIGTERM."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from beanpole.django.interface import tasks
from beanpole.django.running import worker
from beanpole.errors import BeanpoleError


class Command(BaseCommand):  # type: ignore[misc] # Django has no types
    """The command."""

    help = "Runs the tasks of a backend of TASKS. SIGTERM stops it: running tasks have 25 seconds to end."

    def add_arguments(self, parser: CommandParser) -> None:
        """Says what can be given."""
        parser.add_argument("--queue", action="append", default=[], help="a queue; again for more (all of QUEUES)")
        parser.add_argument("--concurrency", type=int, help="how many tasks run at a time, in threads (10)")
        parser.add_argument("--backend", default=tasks.DEFAULT_TASK_BACKEND_ALIAS, help="its name in TASKS (default)")

    def handle(self, *_args: Any, queue: list[str], concurrency: int | None, backend: str, **options: Any) -> None:  # noqa: ANN401 - as argparse gives it
        """Works."""
        try:
            made = worker(backend, queue, concurrency)
            made.log_done = options["verbosity"] > 1
            made.run()
        except BeanpoleError as error:
            raise CommandError(str(error)) from error
        except tasks.task_backends.exception_class as error:  # which speaks of connections
            raise CommandError(f"TASKS has no {backend}; it has {', '.join(tasks.task_backends)}") from error
