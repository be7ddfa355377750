"""The poolers as torch modules. Importing them imports torch, so only the components' `build` methods do."""
