"""Two stages that work together: `quota` lets a request in, `charge` counts what its attempts used."""

import pytest

from blazar.errors import ChildFailed, QuotaExceeded
from blazar.proxy.accounts import Accounts
from blazar.proxy.auth import ApiKey
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.exchange import ClientGone, Reply, Usage
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.limits import Limits
from blazar.proxy.stages.charge import Charge
from blazar.proxy.stages.quota import Quota
from blazar.telemetry.metrics import Metrics
from tests.support.exchanges import exchange_of

ANN = ApiKey("ann", b"")


class Bench:
    def __init__(self, **limits):
        self.metrics, self.accounts = Metrics(), Accounts(lambda: 1000.0, lambda: 5 * 86400.0)
        self.accounts.open([("ann", Limits(**limits))])
        self.account = self.accounts.get("ann")

    @staticmethod
    def exchange_for(api_key=ANN, **payload):
        return exchange_of(id="r", dialect=OpenAIDialect(None), operation="chat", asked="m", stream=False,
                        body=b"x" * 40, payload=payload, model="m:q4_0", api_key=api_key)

    def run(self, outcome, usage=None, api_key=ANN, attempts=1, **payload):
        exchange = self.exchange_for(api_key, **payload)
        charge = Charge(self.accounts, self.metrics, BodyReader())

        def attempt(exchange):
            assert exchange.usage is None
            exchange.usage = usage
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        def all_attempts(exchange):
            return [charge(exchange, attempt) for _ in range(attempts)][-1]

        self.exchange = exchange
        return Quota(self.accounts, self.metrics)(exchange, all_attempts)

    def tokens(self, key="ann"):
        return (self.metrics.prompt_tokens.value(key, "m:q4_0"), self.metrics.completion_tokens.value(key, "m:q4_0"))


def test_the_real_count_is_charged_and_nothing_stays_reserved():
    bench = Bench(tpm=1000, max_concurrent=1)
    bench.run(Reply(200), Usage(prompt_tokens=7, completion_tokens=3), max_tokens=900)
    assert (bench.account.today(), bench.tokens()) == (10, (7, 3))
    bench.run(Reply(200), Usage(prompt_tokens=7, completion_tokens=3), max_tokens=900)
    with pytest.raises(QuotaExceeded):
        bench.run(Reply(200), max_tokens=980)
    assert bench.metrics.quota_refusals.value("ann", "tpm") == 1


@pytest.mark.parametrize("outcome", [ChildFailed("x"), ClientGone(), ZeroDivisionError()])
@pytest.mark.parametrize(("usage", "charged"), [(None, 0), (Usage(4, 2, estimated=True), 6)])
def test_however_it_ends(outcome, usage, charged):
    bench = Bench(max_concurrent=1, tpm=500)
    for number in range(1, 4):
        with pytest.raises(type(outcome)):
            bench.run(outcome, usage, max_tokens=400)
        assert bench.account.today() == number * charged


def test_each_attempt_is_charged_and_all_are_one_request():
    bench = Bench(rpm=2)
    bench.run(Reply(200), Usage(1, 2), attempts=3)
    assert bench.account.today() == 9
    bench.run(Reply(200), Usage(1, 2))
    with pytest.raises(QuotaExceeded):
        bench.run(Reply(200))
    assert bench.account.today() == 12


def test_what_a_request_may_use_stays_reserved_while_it_waits_between_the_stages():
    bench = Bench(tpm=1000, rpm=9)
    quota = Quota(bench.accounts, bench.metrics)

    def waits(exchange):
        with pytest.raises(QuotaExceeded) as refused:
            bench.run(Reply(200), Usage(1, 1), max_tokens=400)
        assert refused.value.limit == "tpm" and "used or reserved 610" in str(refused.value)
        bench.run(Reply(200), Usage(1, 1), max_tokens=380)
        return Reply(200)

    quota(bench.exchange_for(max_tokens=600), waits)
    assert bench.account.today() == 2, "who is answered without an engine pays nothing"
    bench.run(Reply(200), Usage(1, 1), max_tokens=980)


def test_without_a_key_tokens_are_counted_under_no_name():
    bench = Bench(rpm=1)
    for _ in range(3):
        bench.run(Reply(200), Usage(1, 2), api_key=None)
    assert bench.tokens("") == (3, 6) and bench.account.today() == 0


def test_answers_tell_what_is_left_once_the_request_is_counted():
    bench = Bench(rpm=5, tpm=1000)
    bench.run(Reply(200), Usage(7, 3), max_tokens=100)
    told = dict(bench.exchange.headers)
    assert (told["x-ratelimit-remaining-requests"], told["x-ratelimit-remaining-tokens"]) == ("4", "890")
    assert bench.account.left()[1:] == (990, False)
    free = Bench(max_concurrent=5)
    free.run(Reply(200))
    assert free.exchange.headers == [], "nothing of a limit is used up by and by"
