"""The `headway` command line."""

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

# A command allocates many objects while it loads and frees few. The default thresholds trigger frequent collections that find no
# garbage.
gc.set_threshold(50_000, 20, 20)


def postpone_import(name: str) -> None:
    """Let `import` find a stand-in, which loads the module when something in it is first used."""
    if name in sys.modules:
        return
    stand_in = ModuleType(name)

    def load(attribute: str) -> Any:
        if sys.modules.get(name) is stand_in:
            sys.modules.pop(name, None)
        module = import_module(name)
        vars(stand_in).update(vars(module))  # for modules that keep the stand-in
        return getattr(module, attribute)

    stand_in.__dict__["__getattr__"] = load
    sys.modules[name] = stand_in


# Click imports it to format help. With what it imports itself, it takes a seventh of the time of a short command.
postpone_import("inspect")
