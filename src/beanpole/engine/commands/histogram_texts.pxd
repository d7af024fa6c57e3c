# The header of histogram_texts.py.
from beanpole.engine.state.times cimport ServerTimes
from beanpole.engine.state.tube cimport Tube

cdef bytes head_of(ServerTimes times)
cdef bytes item_of(Tube tube)
