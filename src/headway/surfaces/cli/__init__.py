"""The `headway` command line."""

import gc

# A command allocates many objects while it loads and frees few. The default thresholds trigger frequent collections that find no
# garbage.
gc.set_threshold(50_000, 20, 20)
