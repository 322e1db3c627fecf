"""The page: ES modules, styles, a font and icons, served as they are."""
