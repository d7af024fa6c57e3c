"""What becomes of jobs by the rules of their tube and by what they were put with. It knows no command."""
