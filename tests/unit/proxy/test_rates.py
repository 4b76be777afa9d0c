import pytest

from blazar.proxy.accounts import Account
from blazar.proxy.limits import DAY, Limits
from blazar.proxy.rates import duration

NOON = 20000 * DAY + DAY / 2


def account(**limits):
    return Account("ann", Limits(**limits), lambda: 1000.0, lambda: NOON)


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0s"), (0.0001, "1ms"), (0.5, "500ms"), (1, "1s"), (1.21, "1.3s"), (59.96, "60s"), (60, "1m0s"),
    (359.1, "6m0s"), (3600, "1h0m0s"), (86399, "23h59m59s")])
def test_durations_are_as_openai_writes_them(seconds, text):
    assert duration(seconds) == text


def test_a_fresh_key_has_all_of_its_limits():
    assert account(rpm=60, tpm=1000).headers("openai") == [
        ("x-ratelimit-limit-requests", "60"), ("x-ratelimit-remaining-requests", "60"),
        ("x-ratelimit-reset-requests", "0s"), ("x-ratelimit-limit-tokens", "1000"),
        ("x-ratelimit-remaining-tokens", "1000"), ("x-ratelimit-reset-tokens", "0s")]


def test_what_is_used_and_reserved_is_not_left():
    ann = account(rpm=60, tpm=1000)
    ann.spend(10, 20)
    told = dict(ann.rates.of(ann.enter(400), "ollama"))
    assert (told["x-ratelimit-remaining-requests"], told["x-ratelimit-reset-requests"]) == ("59", "1m0s")
    assert (told["x-ratelimit-remaining-tokens"], told["x-ratelimit-reset-tokens"]) == ("570", "1m0s")
    ann.spend(5000, 0)
    assert dict(ann.headers("openai"))["x-ratelimit-remaining-tokens"] == "0"


def test_of_two_limits_of_tokens_the_nearer_one_is_told():
    ann = account(tpm=1000, daily_tokens=1500)
    assert dict(ann.headers("openai"))["x-ratelimit-limit-tokens"] == "1000"
    ann.spend(900, 0)
    ann.restore("2024-10-04", 1450)
    told = dict(ann.headers("openai"))
    assert [told[f"x-ratelimit-{what}-tokens"] for what in ("limit", "remaining", "reset")] == ["1500", "50", "12h0m0s"]


def test_anthropic_clients_get_both_forms():
    told = dict(account(rpm=5).headers("anthropic"))
    assert told["anthropic-ratelimit-requests-limit"] == told["x-ratelimit-limit-requests"] == "5"
    assert told["anthropic-ratelimit-requests-remaining"] == "5"
    assert told["anthropic-ratelimit-requests-reset"].endswith("Z") and not any("tokens" in name for name in told)


@pytest.mark.parametrize("limits", [{}, {"max_concurrent": 4}, {"weight": 2.0}])
def test_a_key_without_such_limits_has_none(limits):
    ann = account(**limits)
    assert ann.rates is None and ann.headers("anthropic") == []
