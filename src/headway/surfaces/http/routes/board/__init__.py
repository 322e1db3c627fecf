"""Routes of what people do with todos besides changing them."""
