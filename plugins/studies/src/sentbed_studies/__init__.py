"""Ablation studies: axes over any value of a recipe, run and reported together."""
