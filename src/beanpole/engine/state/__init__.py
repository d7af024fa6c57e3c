"""What there is: jobs, tubes, sessions, heaps, timers and counts. It knows neither the policies nor the commands."""
