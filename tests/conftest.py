"""One cache of compiled programs for the whole session, shared with every process the tests start, and nothing of the user's."""

import atexit
import os
import shutil
import tempfile

if "PAOTA_TEST_CACHE" not in os.environ:  # worker processes inherit their parent's
    folder = tempfile.mkdtemp(prefix="paota-test-cache-")
    os.environ["PAOTA_TEST_CACHE"] = os.environ["PAOTA_CACHE_DIR"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
