"""Webhooks: the event log of a tenant, sent to the addresses that it has subscribed."""
