"""Privacy of devices whose data stays with them: sums of masked updates, and noise with a bounded loss."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
