"""The tubes of whoever has the jobs: of the server, or of the leader that it follows."""

from beanpole.client import StatsTube
from beanpole.console.servers import Server
from beanpole.observe.sampling import ask_pages


async def tubes_of(server: Server) -> list[StatsTube]:
    """Returns the tubes in the order of their names, as they were a second ago at most.

    The sample of a node that follows has none: then its leader is asked. Raises AwayError, and what a client does.
    """
    sample = await server.sampler.sample.get()
    if sample.leads:
        return list(sample.tubes.values())
    client = await server.client()
    tubes, _ = await ask_pages(client, (await client.stats()).current_tubes)
    return list(tubes.values())
