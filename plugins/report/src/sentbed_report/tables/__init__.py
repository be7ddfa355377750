"""Tables: estimates in rows and columns, and their forms for readers and programs."""
