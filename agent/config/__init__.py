"""Turns the configuration file into frozen records, or into problems that people can act on."""
