# The header of roundtrip.py. The calls into the system need none of it; the file says that the module is compiled.
cimport cython
