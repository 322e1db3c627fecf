// Loads the style sheet of the goals' pages, once, before they are shown.
import { loadStyles } from "../core/ui.js";

await loadStyles("goals.css");
