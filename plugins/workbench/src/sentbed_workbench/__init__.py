"""Tools for authors of recipes and plugins: plan, doctor, schema, explain, diff, new."""
