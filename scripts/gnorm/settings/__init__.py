"""The configuration and its suites: schema, defaults, checks and messages."""
