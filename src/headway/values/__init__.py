"""What the library returns: frozen values, decoded from the documents of the REST API."""
