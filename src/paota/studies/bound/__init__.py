"""What does the paper's Theorem 1 say about a real run, printed and corrected, with constants from the run itself?

The printed and the corrected form assume weights that are independent of the mini-batch noise of the updates that they
weigh; `dependent` does not (see `theorem`). `regret` bounds the mean gap of a convex F at any learning rate.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # start-up time: some of it needs JAX
