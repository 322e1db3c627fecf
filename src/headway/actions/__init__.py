"""One function per verb, over one transaction, which emits its events."""
