"""What people read and take home beside tables and figures."""
