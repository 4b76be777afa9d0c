"""The gateway for a WSGI server of your own: `gunicorn -k gevent blazar.wsgi`.

It joins the running supervisor of the data dir that the environment names, and takes the settings from it. Without
one it reads the configuration itself and goes on looking: what is answered from a loaded model then is nothing.
Building the application is what importing this module is for.
"""

import os

from blazar.config.load import load
from blazar.paths import locate
from blazar.proxy.app import Application, create_app


def build() -> Application:
    located = locate(os.environ)
    return create_app(located.paths.control_socket, lambda: load(located.config_file, os.environ))


application = build()
