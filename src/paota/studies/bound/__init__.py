"""Theorem 1 of the paper beside a real run: as printed and as corrected, with constants estimated from the run.

The printed and the corrected form assume weights that are independent of the mini-batch noise of the updates that they
weigh. The `dependent` form does not (see `theorem`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # start-up time: some of it needs JAX
