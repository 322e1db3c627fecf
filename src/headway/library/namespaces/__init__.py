"""The methods of the library, by what they work on. Each sends one request of the REST API through a transport."""
