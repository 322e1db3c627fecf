"""What makes the OpenAPI document pleasant for generators of clients: the names of operations, schemas and enums."""
