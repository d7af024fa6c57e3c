# The header of scan.py, which has no type of its own.
