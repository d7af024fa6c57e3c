"""Random conversations with Beanpole and beanstalkd at once, compared byte for byte."""
