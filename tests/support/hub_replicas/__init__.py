"""Small random models in the layouts of the hub's repositories, and a hub that has them."""
