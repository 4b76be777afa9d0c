import pytest

from blazar.units import format_bytes, format_duration, parse_duration


@pytest.mark.parametrize(("count", "text"), [
    (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (98_400_000, "93.8 MiB"), (5 << 40, "5.0 TiB"),
    (5000 << 40, "5000.0 TiB"),
])
def test_bytes_for_people(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(("seconds", "text"), [
    (0.25, "250 ms"), (1, "1 s"), (1.5, "1.5 s"), (90, "1 m 30 s"), (7200, "2 h"), (3661, "1 h 1 m 1 s"),
])
def test_durations_for_people(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("text", "seconds"), [
    ("0", 0), ("0s", 0), ("5m", 300), ("-1m", -60), ("1h30m", 5400), ("1.5h", 5400), ("300", 300), ("-1", -1),
    ("250ms", 0.25), ("1m30.5s", 90.5), (" 5m ", 300), ("+5m", 300),
])
def test_durations_are_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", " ", "-", "5 minutes", "m5", "5m!", "1h 30m", "5mm", "--5m", "nan", "1e3", "٥m"])
def test_what_is_no_duration_is_refused_and_never_guessed(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)
