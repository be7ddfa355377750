"""Tools for those who write recipes and plugins: plan, doctor, schema, explain, diff, new."""
