"""Several Postgres databases, each with some of the tenants: their rows, the changes in one, and the work in more than one.

The rest asks in one place: authentication and the feed ask `redirects` where a tenant is that is not here.
"""
