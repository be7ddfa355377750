"""Small random models in the layouts of the hub's repositories, and a server that speaks its protocol."""
