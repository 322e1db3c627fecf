"""Several Postgres databases, each with some of the tenants: their rows, the changes in one, and the work in more than one.

The rest asks in two places: authentication asks `redirects` where a tenant is that is not here, the feed asks `departures`.
"""
