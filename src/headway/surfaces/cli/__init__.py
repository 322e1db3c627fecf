"""`headway …`"""

import gc

# A command makes many objects while it loads and drops few: looking for garbage that often finds none and takes its time.
gc.set_threshold(50_000, 20, 20)
