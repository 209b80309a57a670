"""What people read: on the terminal while a race runs and after it, and on its page."""
