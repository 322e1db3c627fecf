"""Text files in a tenant's workspace folder. Nothing outside the folder can be read, written, searched or listed.

Folders are opened one inside the other and symbolic links are never followed, so concurrent renames cannot make a path lead
outside. For the same reason, `..` is resolved on the path itself before anything is opened.
"""
