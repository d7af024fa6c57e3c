# The header of histogrampage.py.
from beanpole.engine.times cimport ServerTimes
from beanpole.engine.tube cimport Tube

cdef bytes head_of(ServerTimes times)
cdef bytes item_of(Tube tube)
