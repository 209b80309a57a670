"""What tests of the command share."""

from tests.adamomentum_lab.command_line import no_workers

__all__ = ["no_workers"]
