"""What the ID service costs, as ratios to a C echo that runs beside it: `make bench-ids`.

`programs` compiles and starts what is measured and what measures; `rows` has a function for each row of the table;
`__main__` prints them.
"""
