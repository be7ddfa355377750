"""`python -m sentbed`."""

from sentbed.cli import main

main(prog_name="sentbed")
