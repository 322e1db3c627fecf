"""The web page: ES modules, styles, a font and icons, served without a build step."""
