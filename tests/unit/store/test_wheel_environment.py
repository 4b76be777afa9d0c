"""What pip sees of our environment."""

from blazar.store.wheel import for_pip


def test_pip_gets_its_own_settings_and_none_of_our_secrets():
    given = {"PATH": "/bin", "HOME": "/h", "PIP_INDEX_URL": "https://u:p@index/", "HTTPS_PROXY": "http://p:1",
             "SSL_CERT_FILE": "/c", "BLAZAR_REGISTRY_TOKEN": "s", "BLAZAR_KEYS": "s", "HF_TOKEN": "s",
             "OPENAI_API_KEY": "s", "ANTHROPIC_API_KEY": "s", "HUGGING_FACE_HUB_TOKEN": "s"}
    assert for_pip(given) == {name: value for name, value in given.items() if value != "s"}
