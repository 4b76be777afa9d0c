import pytest

from blazar.errors import AliasHollow, ModelNotFound
from blazar.proxy.aliases import aliases_of
from blazar.proxy.directory import REMEMBERED, Directory
from tests.support.fake_supervisor import endpoint

PLACE = endpoint("solo:q4_0", ("127.0.0.1", 9))


def snapshot():
    return {"models": {"solo:q4_0": {}, "duo:q8_0": {}}, "aliases": {"fast": "duo:q8_0"},
            "children": {}, "started_at": 5.0}


def loaded(place=PLACE):
    return Directory({**snapshot(), "children": {place.model: place.to_dict()}})


@pytest.mark.parametrize("reference", ["solo:q4_0", "SOLO", "solo:latest", "Solo:Q4_0"])
def test_every_spelling_gives_the_canonical_name(reference):
    directory = loaded()
    assert [directory.resolve(reference) for _ in range(2)] == ["solo:q4_0"] * 2


def test_alias():
    assert loaded().resolve("fast") == "duo:q8_0"


def test_a_name_that_left_with_the_snapshot_is_not_remembered():
    directory = loaded()
    directory.resolve("solo")
    directory.replace({"models": {}})
    with pytest.raises(ModelNotFound):
        directory.resolve("solo")


def test_many_spellings_do_not_pile_up():
    directory = loaded()
    for number in range(11):
        for other in range(256):
            spelling = "".join(letter.upper() if (number * 256 + other) >> bit & 1 else letter
                               for bit, letter in enumerate("solo:latest"))
            directory.resolve(spelling)
    assert len(directory._canonical) <= REMEMBERED


def test_endpoint_survives_the_trip_as_plain_values():
    assert loaded().endpoint("solo:q4_0") == PLACE and loaded().child_ids() == {"solo:q4_0#1"}
    assert loaded().endpoint("duo:q8_0") is None


def test_a_suspect_is_passed_over_until_the_supervisor_speaks_of_it():
    directory = loaded()
    directory.suspect(PLACE)
    assert directory.endpoint("solo:q4_0") is None
    directory.trust(PLACE)
    assert directory.endpoint("solo:q4_0") == PLACE
    directory.suspect(PLACE)
    directory.replace({**snapshot(), "children": {"solo:q4_0": PLACE.to_dict()}})
    assert directory.endpoint("solo:q4_0") == PLACE


def preset_directory():
    directory = loaded()
    directory.presets = aliases_of([{"name": "Brief", "model": "SOLO", "set": {"temperature": 0.1}},
                                    {"name": "hollow", "model": "gone"}, {"name": "duo:q8_0", "model": "solo"}])
    return directory


@pytest.mark.parametrize("reference", ["brief", "BRIEF", "brief:latest"])
def test_an_alias_of_the_configuration_leads_to_its_model(reference):
    directory = preset_directory()
    assert [directory.resolve(reference) for _ in range(2)] == ["solo:q4_0"] * 2
    assert directory.preset(reference).name == "brief"
    directory.resolve("solo")
    assert directory.preset("solo") is None
    with pytest.raises(ModelNotFound):
        directory.resolve_model(reference)


def test_an_alias_without_its_model_says_so():
    with pytest.raises(AliasHollow, match=r"hollow is an .* of the model .gone."):
        preset_directory().resolve("hollow")


def test_a_model_of_that_very_name_comes_first():
    directory = preset_directory()
    assert directory.resolve("duo:q8_0") == "duo:q8_0" and directory.preset("duo:q8_0") is None


def test_only_aliases_whose_model_is_here_are_listed():
    entries = preset_directory().preset_entries()
    assert {name: entry["parent"] for name, entry in entries.items()} == {"brief": "solo:q4_0"}
