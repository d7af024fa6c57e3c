# stats.py is compiled because it reads fields that only C sees; it has no fields of its own.
