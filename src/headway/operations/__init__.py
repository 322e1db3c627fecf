"""The operations of Headway, each declared once. REST and the library offer them with the same parser and the same errors."""
