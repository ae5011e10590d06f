"""Turns the configuration file into frozen records, or into problems with their positions.

``source`` reads the bytes. ``text_decoding`` and ``json_positions`` make values with positions of
them. ``load``, ``pool`` and ``converter`` make records of these by ``schema``. ``legacy`` and
``other_formats`` recognise other layouts.
"""
