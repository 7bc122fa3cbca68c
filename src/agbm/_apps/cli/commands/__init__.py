"""The subcommands: each calls the library with parsed arguments, and writes or prints the results."""
