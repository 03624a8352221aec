"""Python runs this in each process of the tests: fewer garbage collections.

A short process keeps all that it imports, so its collections find nothing. Without
them, and without the one at the end, a command needs three quarters of the time.
"""

import atexit
import gc

gc.set_threshold(100_000)
atexit.register(gc.freeze)
