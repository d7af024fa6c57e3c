"""What the model knows of the statistics of a server, against what the server says."""


def compare_stats(got: bytes, wanted: bytes) -> None:
    """Compares `stats` by those keys that the model knows and the server has."""
    server = dict(line.split(": ") for line in got.decode().splitlines() if ": " in line)
    model = dict(line.split(": ") for line in wanted.decode().splitlines() if ": " in line)
    differing = [
        f"{key} is {server[key]}, the model says {model[key]}"
        for key in model
        if server.get(key, model[key]) != model[key]
    ]
    assert not differing, "; ".join(differing)
    assert set(model) - set(server) <= {"cmd-quit", "cmd-reserve-job", "cmd-kick-job"}
