"""Statistics of scores: functions of arrays and mappings, which know nothing of tables, reports and studies.

Early stopping, rank groups, power, the chosen cell and `sentbed compare` share them.
"""
