"""What the form of an action asks for, verb by verb."""

from dataclasses import dataclass

from beanpole.client import limits

RULES = (
    ("attempts: N", "a job whose N-th attempt fails is dead"),
    ("dead: TUBE", "where the dead go; without it they are buried where they are"),
    ("backoff: S [factor F] [max M]", "how long a job that failed waits: S seconds, then F times as long, at most M"),
    ("expire: S [dead]", "a job that has waited S seconds is deleted, or dead"),
    ("unique: body [until reserve] [replace]", "a job whose body is there already is not put again"),
    ("jobs-max: N", "nothing is put while so many jobs are ready or delayed"),
    ("bytes-max: N", "nothing is put with which all bodies would have more bytes"),
    ("rate: N/s [burst B]", "so many jobs are handed out in a second (/m: a minute, /h: an hour)"),
    ("concurrency: N", "so many jobs are held at a time"),
)
"""The rules that there are, and what each does."""


@dataclass(frozen=True, slots=True)
class Input:
    """A field of a form."""

    name: str
    label: str
    kind: str = "number"
    """number, seconds, text, tube, area, choice, states, tick."""

    hint: str = ""
    value: str = ""
    """What stands in it in the beginning."""

    choices: tuple[tuple[str, str], ...] = ()
    is_wanted: bool = False


INPUTS: dict[str, tuple[Input, ...]] = {
    "put": (
        Input("tube", "Tube", "tube", is_wanted=True),
        Input("body", "Body", "area"),
        Input("priority", "Priority", hint="from 0, the most urgent", value=str(limits.PRI_DEFAULT)),
        Input("delay", "Delay", "seconds", "seconds until it is ready", value="0"),
        Input("ttr", "Time to run", hint="seconds that a worker has", value=str(limits.TTR_S_DEFAULT)),
        Input("expire", "Expires after", "seconds", "seconds; deleted if nobody works on it then; empty: never"),
        Input("key", "Key", "text", "of the jobs of a tube only one can have it"),
        Input(
            "taken", "If a job has the key already", "choice", choices=(("", "it stays"), ("replace", "it is replaced"))
        ),
        Input(
            "until",
            "The key is free again",
            "choice",
            choices=(("", "when the job is deleted"), ("reserve", "when it is first reserved")),
        ),
    ),
    "move": (Input("to", "Into the tube", "tube", is_wanted=True),),
    "snooze": (
        Input("delay", "Delay", "seconds", "seconds until ready", is_wanted=True),
        Input("priority", "Priority", hint="empty: as it is"),
    ),
    "change": (
        Input("priority", "Priority", hint="empty: as it is"),
        Input("delay", "Delay", "seconds", "seconds until ready; empty: as it is"),
        Input("ttr", "Time to run", hint="seconds that a worker has; empty: as it is"),
        Input("expire", "Expires after", "seconds", "seconds from now; 0: never; empty: as it is"),
        Input("to", "Tube", "tube", "empty: where it is"),
        Input("with_body", "Replace the body by this one", "tick"),
        Input("body", "Body", "area"),
    ),
    "clear": (Input("state", "Jobs that are", "states"),),
    "pause": (Input("seconds", "For", "number", "seconds", value="3600", is_wanted=True),),
    "set-rules": (
        Input("pattern", "Tubes", "text", "a name, the beginning of names with * behind it, or *", is_wanted=True),
        Input("rules", "Rules, a line each", "area", "without any, the rules of other patterns don't apply either"),
    ),
}
"""By verb; others ask for nothing."""

FILLED = "filled"
"""The field of a form that was filled in: without it, an action that asks for something shows its form first."""
