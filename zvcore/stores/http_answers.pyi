from enum import IntEnum

LONGEST_REST: int
SENT_AT_ONCE: int

class Outcome(IntEnum):
    GOING_ON = 0
    AT_REST = 1
    ENDED = 2
    LOST = 3
    UNEXPECTED = 4
    REFUSED = 5
