"""Property tests draw the same examples every time under CI, so that a red run can be repeated; elsewhere they look further."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
