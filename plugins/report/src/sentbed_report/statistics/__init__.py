"""Statistics of scores: functions of arrays and mappings, which do not depend on tables, reports or studies.

Tables, rank groups, power analysis, the choice of a cell and `sentbed compare` use them.
"""
