// Whether the window is narrow, as on a phone. The styles change at the same width.
import { signal } from "../../core/lib.js";

const query = matchMedia("(max-width: 860px)");
export const isNarrow = signal(query.matches);
query.addEventListener("change", () => (isNarrow.value = query.matches));
