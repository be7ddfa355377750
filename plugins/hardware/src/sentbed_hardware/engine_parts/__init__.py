"""Parts of engines whose encoders are torch modules. Other distributions use them for their engines, too.

Importing these modules imports torch, except for `processor`.
"""
