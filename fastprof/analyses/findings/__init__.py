"""What costs the time, and what to do? Rules that make findings of the reports of analyses."""
