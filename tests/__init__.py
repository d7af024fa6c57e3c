"""Everything that tests Beanpole; see docs/architecture.md for what each folder is for."""
