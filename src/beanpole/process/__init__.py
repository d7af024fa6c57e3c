"""Child processes: `child` starts one and says how it has ended, `crew` keeps several that do the same."""
