"""The command line: one file for each command, arguments in one place."""
