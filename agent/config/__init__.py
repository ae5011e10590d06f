"""Turns the configuration file into frozen records, or into problems that people can act on.

``source`` reads the bytes, ``json_text`` and ``json_positions`` make values with places of them,
``load`` and ``pool`` make records and problems, ``legacy`` and ``foreign`` know other layouts.
"""
