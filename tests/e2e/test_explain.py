"""explain on a real server: who holds a job is named by the address that its administrator sees."""

from tests.e2e.process import Process
from tests.servers import HOST


def test_a_holder_is_named_by_its_address(process: Process) -> None:
    with process.connect() as holder, process.connect() as asking:
        holder.ask(b"put 0 0 60 0\r\n\r\nreserve\r\n", b"INSERTED 1\r\nRESERVED 1 0\r\n\r\n")
        holder.ask(b"watch t\r\n", b"WATCHING 2\r\n")
        asking.send(b"explain 1\r\n")
        port = holder.socket.getsockname()[1]
        assert f'"peer": "{HOST}:{port}", "silent": '.encode() in asking.body()
