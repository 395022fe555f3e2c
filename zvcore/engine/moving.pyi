from typing import final

from zvcore.engine.selection import Selection

@final
class Items:
    selection: Selection
