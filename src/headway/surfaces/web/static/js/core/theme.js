/* A classic script in <head>: it runs before the first paint, so that the page never flashes in the wrong theme. */
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  /* storage is blocked: the system's theme applies */
}
