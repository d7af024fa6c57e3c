"""What a client takes: which text format, and whether compressed (RFC 9110, 12.5)."""

from collections.abc import Iterator


def preferences(header: str) -> Iterator[tuple[str, float]]:
    """The entries of an Accept or Accept-Encoding header, in small letters, with their weights."""
    for entry in header.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        weight = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                try:
                    weight = float(value)
                except ValueError:
                    weight = 0.0
        if name:
            yield name, weight


def wants_openmetrics(header: str) -> bool:
    """Whether a client would rather have OpenMetrics than the classic text: it must name it, and above other text."""
    best = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for name, weight in preferences(header):
        if name in best:
            best[name] = max(best[name], weight)
    return best["application/openmetrics-text"] > 0 and best["application/openmetrics-text"] >= best["text/plain"]


def takes_gzip(header: str) -> bool:
    """Whether a client takes an answer in the format of gzip."""
    weights = dict(preferences(header))
    return weights.get("gzip", weights.get("*", 0.0)) > 0
