"""`python -m sentbed`."""

from sentbed._cli.main import main

main(prog_name="sentbed")
