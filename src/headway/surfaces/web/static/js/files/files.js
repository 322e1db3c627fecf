// The page of files: /files is the list, and /files/ID is one file. Each part is loaded when it is first opened.
import { html, useEffect, useState } from "../core/lib.js";
import { path } from "../core/router.js";
import { isOutdated } from "../core/session.js";
import { loadStyles, Main } from "../core/ui.js";

export const TITLE = "Files";

const ID = /^\/files\/([0-9a-f]{32})$/;

await loadStyles("files.css");

export function Page() {
  const id = ID.exec(path.value)?.[1] ?? null;
  const [part, setPart] = useState(null);
  useEffect(() => {
    const load = id ? import("./file.js") : import("./list.js");
    load.then(
      (module) => setPart(() => module.Page),
      () => (isOutdated.value = true),
    );
  }, []);
  const Part = part;
  return html`<${Main}>${Part ? html`<${Part} id=${id} />` : html`<h1 key="loading">Files</h1>`}<//>`;
}
