"""Every check of a user's value, once."""
