"""What has ended is noted a moment later, and before anybody reads what it would be noted in."""

import pytest

from blazar.config.config import Config
from blazar.paths import Paths
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Reply
from blazar.proxy.gateway import Gateway
from blazar.proxy.ledger import Ledger
from blazar.proxy.supervisor import Supervisor
from tests.support.exchanges import exchange_of


class Sink:
    started, status, gone = True, 200, False


READERS = {"the metrics": lambda gateway: gateway.metrics.text(),
           "the last words": lambda gateway: gateway.supervisor.part(),
           "the last requests": lambda gateway: gateway.ledger.finished.last(1, None),
           "the end of the process": lambda gateway: gateway.note()}


@pytest.mark.parametrize("reader", READERS)
def test_it_is_noted_for_whoever_reads(tmp_path, reader):
    paths = Paths(tmp_path).ensure()
    directory, ledger = Directory(), Ledger()
    supervisor = Supervisor(paths.control_socket, directory, ledger)
    gateway = Gateway(Config.from_dict({}), paths, directory, ledger, supervisor)
    asked = exchange_of(id="req_1", dialect=OpenAIDialect(), operation="chat", asked="Solo", stream=True, body=b"",
                        payload={}, sink=Sink())
    gateway._stages["trace"](asked, lambda _: Reply(200))
    assert paths.audit_log.read_bytes() == b"", "that is for later"
    READERS[reader](gateway)
    assert paths.audit_log.read_bytes().count(b'"id":"req_1"') == 1
    assert gateway.metrics.generations.value("openai", "chat", "2xx") == 1
