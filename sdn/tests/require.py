"""Requirements of tests: programs and permissions. A test whose requirement is missing fails, unless ALLOW_MISSING, a
comma-separated list, names it."""

import os
import shutil
import unittest


def require(*names):
    """Skips the test if a missing requirement is allowed; `root` is the permission, other names are programs."""
    for name in names:
        if os.geteuid() == 0 if name == "root" else shutil.which(name):
            continue
        if name in (listed.strip() for listed in os.environ.get("ALLOW_MISSING", "").split(",")):
            raise unittest.SkipTest(f"missing: {name} (allowed by ALLOW_MISSING)")
        raise AssertionError(f"missing: {name} (ALLOW_MISSING={name} allows it)")
