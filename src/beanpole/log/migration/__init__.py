"""The log of beanstalkd becomes ours."""
