"""Stand-ins and builders that tests share."""
