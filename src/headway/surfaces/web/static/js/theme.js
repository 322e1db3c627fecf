/* A classic script in <head>: it runs before the first paint, so that the wrong theme never flashes up. */
try {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  /* Storage can be forbidden; then the system's theme it is. */
}
