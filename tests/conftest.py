"""What holds for all tests."""

import os

from hypothesis import HealthCheck, settings

# Examples take as long as the machine is busy: that says nothing about the code.
settings.register_profile("zvcore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
# With CI set, each run tries the same examples: a failure belongs to the change that it appears with.
settings.register_profile("zvcore-ci", settings.get_profile("zvcore"), derandomize=True, database=None)
settings.load_profile("zvcore-ci" if os.environ.get("CI") else "zvcore")
