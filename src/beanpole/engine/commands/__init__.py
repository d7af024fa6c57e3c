"""What clients can ask for, a file for each family of commands: functions over the state."""
