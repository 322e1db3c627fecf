"""Short texts made from longer ones, and search by words."""
