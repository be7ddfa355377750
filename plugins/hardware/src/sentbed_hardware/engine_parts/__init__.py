"""Parts of an engine for torch modules, also for engines of other distributions; they import torch."""
