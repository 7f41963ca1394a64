"""What holds for all tests.

Property tests draw the same examples every time under CI, so that a red run can be repeated; elsewhere they look further. What this
process writes is not waited for until it is on the disk (a thousand runs of a hundred files each would be minutes of waiting); processes
of their own do wait, and `reliability/test_disk.py` holds that they do, and in which order.
"""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

os.fsync = lambda handle: None
