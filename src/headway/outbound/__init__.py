"""Which hosts and addresses Headway may connect to on behalf of others: agents that read web pages, and webhooks."""
