"""``beanpole completion``: click's scripts for the shells that it knows."""

import click
from click.shell_completion import get_completion_class

from beanpole.cli.common import SETTINGS

SHELLS = {
    "bash": 'eval "$(beanpole completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(beanpole completion zsh)"     # in ~/.zshrc',
    "fish": "beanpole completion fish | source     # in ~/.config/fish/config.fish",
}
"""What to write where."""


@click.command(
    "completion", context_settings=SETTINGS, epilog="\b\n" + "\n".join(f"  {line}" for line in SHELLS.values())
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete verbs and options."""
    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    click.echo(found(context.find_root().command, {}, "beanpole", "_BEANPOLE_COMPLETE").source())
