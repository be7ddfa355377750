"""The trackers that come with core: console progress and the JSON Lines log.

They are plugins like any other: entry points of this distribution that implement lifecycle hooks.
"""
