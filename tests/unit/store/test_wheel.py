from blazar.store.wheel import pip_environment


def test_pip_gets_the_person_s_settings_and_none_of_our_secrets():
    env = {"PIP_INDEX_URL": "http://mirror", "HTTPS_PROXY": "http://p", "BLAZAR_REGISTRY_TOKEN": "t", "TMPDIR": "/old"}
    assert pip_environment(env, TMPDIR="/new") == {"PIP_INDEX_URL": "http://mirror", "HTTPS_PROXY": "http://p",
                                                   "TMPDIR": "/new"}
