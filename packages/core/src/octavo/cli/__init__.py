"""The command line: `octavo COMMAND`."""
