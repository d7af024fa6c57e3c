from enum import IntFlag

MAGIC: bytes
VERSION: int

SEGMENT_HEADER: int
FRAME: int
JOB_NUMBERS: int
WHOLE_FIXED: int
CHANGED_RECORD: int
DELETED_RECORD: int
TUBE_FIXED: int
TURN_RECORD: int
END_RECORD: int

class Kind(IntFlag):
    WHOLE = 1
    CHANGED = 2
    DELETED = 3
    TUBE = 4
    TURN = 5
    END = 6

def segment_header(number: int, next_job_id: int, clock: tuple[int, int], salt: int) -> bytes: ...
def end_record(next_job_id: int, salt: int) -> bytes: ...
