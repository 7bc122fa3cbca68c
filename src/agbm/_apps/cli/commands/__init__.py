"""The subcommands: each parses nothing, calls the library, and writes or prints the results."""
