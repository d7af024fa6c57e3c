"""What ``manage.py migrate`` does."""
